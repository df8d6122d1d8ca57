#include "model/cpu/block_formats.h"

#include <cstring>

#include "model/cpu/half.h"

namespace tandem::model::cpu {
namespace {

uint16_t HalfBits(const void* data, int64_t index = 0) {
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(data) + index * 2, sizeof(bits));
  return bits;
}

float Float(const uint8_t* data) {
  float value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

float Half(const uint8_t* data) { return FromFloat16(HalfBits(data)); }

// Of a block of 32: the lower halves of its bytes are its first 16 values.
int Nibble(const uint8_t* quants, int i) { return i < 16 ? quants[i] & 15 : quants[i - 16] >> 4; }
int FifthBit(const uint8_t* bits, int i) { return (bits[i / 8] >> (i % 8) & 1) << 4; }

// Scale and minimum of the `part`th 32 values: 6 bits each, packed into 12 bytes.
int PartScale(const uint8_t* packed, int part) {
  return part < 4 ? packed[part] & 63 : (packed[part + 4] & 15) | (packed[part - 4] >> 6) << 4;
}
int PartMinimum(const uint8_t* packed, int part) {
  return part < 4 ? packed[part + 4] & 63 : packed[part + 4] >> 4 | (packed[part] >> 6) << 4;
}

// Of Q4_K and Q5_K: each 64 values share 32 bytes, the lower halves first.
int NibbleOf64(const uint8_t* quants, int i) {
  const uint8_t byte = quants[i / 64 * 32 + i % 32];
  return i % 64 < 32 ? byte & 15 : byte >> 4;
}

float KValue(const uint8_t* block, int quant, int part) {
  const float scale = Half(block) * static_cast<float>(PartScale(block + 4, part));
  const float minimum = Half(block + 2) * static_cast<float>(PartMinimum(block + 4, part));
  return scale * static_cast<float>(quant) - minimum;
}

// Each 128 values share 64 bytes of lower and 32 bytes of upper bits.
float Q6Value(const uint8_t* block, int i) {
  const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
  const uint8_t low = block[half * 64 + l + quarter % 2 * 32];
  const uint8_t high = block[128 + half * 32 + l];
  const int quant = ((quarter < 2 ? low & 15 : low >> 4) | (high >> (2 * quarter) & 3) << 4) - 32;
  const auto scale = static_cast<int8_t>(block[192 + half * 8 + quarter * 2 + l / 16]);
  return Half(block + 208) * static_cast<float>(scale) * static_cast<float>(quant);
}

float BlockValue(SourceType type, const uint8_t* block, int i) {
  switch (type) {
    case SourceType::kQ4_0:
      return static_cast<float>(Nibble(block + 2, i) - 8) * Half(block);
    case SourceType::kQ4_1:
      return static_cast<float>(Nibble(block + 4, i)) * Half(block) + Half(block + 2);
    case SourceType::kQ5_0:
      return static_cast<float>((Nibble(block + 6, i) | FifthBit(block + 2, i)) - 16) * Half(block);
    case SourceType::kQ5_1:
      return static_cast<float>(Nibble(block + 8, i) | FifthBit(block + 4, i)) * Half(block) +
             Half(block + 2);
    case SourceType::kQ8_0:
      return static_cast<float>(static_cast<int8_t>(block[2 + i])) * Half(block);
    case SourceType::kQ4_K:
      return KValue(block, NibbleOf64(block + 16, i), i / 32);
    case SourceType::kQ5_K:
      return KValue(block, NibbleOf64(block + 48, i) | (block[16 + i % 32] >> (i / 32) & 1) << 4,
                    i / 32);
    case SourceType::kQ6_K:
      return Q6Value(block, i);
    case SourceType::kQ4_0F:
      return static_cast<float>(Nibble(block + 4, i) - 8) * Float(block);
    case SourceType::kQ4_1F:
      return static_cast<float>(Nibble(block + 8, i)) * Float(block) + Float(block + 4);
    case SourceType::kFloat32:
    case SourceType::kBfloat16:
    case SourceType::kFloat16:
    case SourceType::kInt8:
      break;
  }
  return 0;
}

}  // namespace

BlockShape BlockShapeOf(SourceType type) {
  switch (type) {
    case SourceType::kFloat32:
      return {1, 4};
    case SourceType::kBfloat16:
    case SourceType::kFloat16:
      return {1, 2};
    case SourceType::kInt8:
      return {1, 1};
    case SourceType::kQ4_0:
      return {32, 18};
    case SourceType::kQ4_1:
      return {32, 20};
    case SourceType::kQ5_0:
      return {32, 22};
    case SourceType::kQ5_1:
      return {32, 24};
    case SourceType::kQ8_0:
      return {32, 34};
    case SourceType::kQ4_K:
      return {256, 144};
    case SourceType::kQ5_K:
      return {256, 176};
    case SourceType::kQ6_K:
      return {256, 210};
    case SourceType::kQ4_0F:
      return {32, 20};
    case SourceType::kQ4_1F:
      return {32, 24};
  }
  return {};
}

float ReadValue(const void* row, SourceType type, int64_t index) {
  switch (type) {
    case SourceType::kFloat32: {
      float value;
      std::memcpy(&value, static_cast<const char*>(row) + index * 4, sizeof(value));
      return value;
    }
    case SourceType::kBfloat16:
      return FromBfloat16(HalfBits(row, index));
    case SourceType::kFloat16:
      return FromFloat16(HalfBits(row, index));
    case SourceType::kInt8:
      return static_cast<float>(static_cast<const int8_t*>(row)[index]);
    default:
      break;
  }
  const BlockShape shape = BlockShapeOf(type);
  return BlockValue(type, static_cast<const uint8_t*>(row) + index / shape.values * shape.bytes,
                    static_cast<int>(index % shape.values));
}

void DequantizeRow(SourceType type, const void* row, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = ReadValue(row, type, i);
}

bool BlocksAreFinite(SourceType type, const void* row, int64_t count) {
  if (type >= SourceType::kQ4_0F) return true;
  const BlockShape shape = BlockShapeOf(type);
  const bool at_end = type == SourceType::kQ6_K;
  const bool two = type == SourceType::kQ4_1 || type == SourceType::kQ5_1 ||
                   type == SourceType::kQ4_K || type == SourceType::kQ5_K;
  const auto is_finite = [](const uint8_t* half) { return (HalfBits(half) & 0x7c00) != 0x7c00; };
  for (int64_t i = 0; i < count / shape.values; ++i) {
    const uint8_t* block = static_cast<const uint8_t*>(row) + i * shape.bytes + (at_end ? 208 : 0);
    if (!is_finite(block) || (two && !is_finite(block + 2))) return false;
  }
  return true;
}

}  // namespace tandem::model::cpu
