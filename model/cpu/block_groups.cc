#include "model/cpu/block_groups.h"

#include <cstring>

#include "model/cpu/half.h"

namespace tandem::model::cpu {
namespace {

float HalfAt(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return FromFloat16(half);
}

// The lower halves of 16 bytes, then the upper ones.
void ReadFours(const uint8_t* bytes, uint8_t* integers) {
  for (int i = 0; i < 16; ++i) {
    integers[i] = bytes[i] & 0x0f;
    integers[i + 16] = bytes[i] >> 4;
  }
}

// Group 0 to 7 of a block of Q4_K. Of 32 bytes the lower halves are an even group, the upper ones
// the next.
WeightGroup ReadQ4K(const uint8_t* block, int group) {
  // Six bits of scale and minimum each: groups 0 to 3 have bytes of their own, whose upper two bits
  // belong to groups 4 to 7.
  const uint8_t* const packed = block + 4;
  int scale = packed[group] & 63;
  int minimum = packed[group + 4] & 63;
  if (group >= 4) {
    scale = (packed[group + 4] & 0x0f) | packed[group - 4] >> 6 << 4;
    minimum = packed[group + 4] >> 4 | packed[group] >> 6 << 4;
  }
  WeightGroup read;
  read.scale = HalfAt(block) * static_cast<float>(scale);
  read.minimum = -(HalfAt(block + 2) * static_cast<float>(minimum));
  for (int i = 0; i < kGroupInputs; ++i) {
    const uint8_t both = block[16 + group / 2 * 32 + i];
    read.integers[i] = group % 2 == 0 ? both & 0x0f : both >> 4;
  }
  return read;
}

}  // namespace

GroupLayout LayoutOf(SourceType type) {
  if (type == SourceType::kQ4_0) return {Integers::kInt4Centered, ScaleType::kFloat16};
  if (type == SourceType::kQ4_1) return {Integers::kInt4, ScaleType::kFloat16};
  if (type == SourceType::kQ4_0F) return {Integers::kInt4Centered, ScaleType::kFloat32};
  if (type == SourceType::kQ4_1F) return {Integers::kInt4, ScaleType::kFloat32};
  // Products of an fp16 and six bits.
  if (type == SourceType::kQ4_K) return {Integers::kInt4, ScaleType::kFloat32};
  return {Integers::kInt8, ScaleType::kFloat16};
}

bool KeepsIntegers(SourceType type) {
  return type == SourceType::kQ4_0 || type == SourceType::kQ4_1 || type == SourceType::kQ5_0 ||
         type == SourceType::kQ8_0 || type == SourceType::kQ4_K || type == SourceType::kQ4_0F ||
         type == SourceType::kQ4_1F;
}

WeightGroup ReadGroup(SourceType type, const void* row, int group) {
  const BlockShape shape = BlockShapeOf(type);
  const uint8_t* const block = static_cast<const uint8_t*>(row) + static_cast<size_t>(group) *
                                                                      kGroupInputs / shape.values *
                                                                      shape.bytes;
  if (type == SourceType::kQ4_K) return ReadQ4K(block, group % 8);
  WeightGroup read;
  if (type == SourceType::kQ4_0F || type == SourceType::kQ4_1F) {
    std::memcpy(&read.scale, block, sizeof(float));
    const bool has_minimum = type == SourceType::kQ4_1F;
    if (has_minimum) std::memcpy(&read.minimum, block + 4, sizeof(float));
    ReadFours(block + (has_minimum ? 8 : 4), read.integers);
    return read;
  }
  read.scale = HalfAt(block);
  if (type == SourceType::kQ4_0) {
    ReadFours(block + 2, read.integers);
  } else if (type == SourceType::kQ4_1) {
    read.minimum = HalfAt(block + 2);
    ReadFours(block + 4, read.integers);
  } else if (type == SourceType::kQ5_0) {
    ReadFours(block + 6, read.integers);
    uint32_t fifth;
    std::memcpy(&fifth, block + 2, sizeof(fifth));
    for (int i = 0; i < kGroupInputs; ++i) {
      const int integer = read.integers[i] | static_cast<int>(fifth >> i & 1) << 4;
      read.integers[i] = static_cast<uint8_t>(integer - 16 + 128);
    }
  } else {
    for (int i = 0; i < kGroupInputs; ++i) {
      read.integers[i] = static_cast<uint8_t>(block[2 + i] ^ 0x80);  // + 128
    }
  }
  return read;
}

}  // namespace tandem::model::cpu
