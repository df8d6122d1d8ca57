#include "model/files/packed_tensor.h"

#include <cstring>

#include "model/files/tensor_type.h"

namespace tandem::model {
namespace {

constexpr int kBlock = 32;
constexpr int kMiddle = 8;  // the zero point of symmetric integers
// Where a word of AWQ has output 0, 1, 2, … of its eight.
constexpr int kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t WordAt(const TensorView& view, int64_t row, int64_t column) {
  uint32_t word;
  std::memcpy(&word,
              static_cast<const char*>(view.data) + (row * view.shape[1] + column) * sizeof(word),
              sizeof(word));
  return word;
}

int Nibble(uint32_t word, int place) { return static_cast<int>(word >> (4 * place) & 15); }

int ZeroPoint(const PackedTensor& tensor, int64_t output, int64_t group) {
  if (!tensor.zeros.has_value()) return kMiddle;
  const int of_eight = static_cast<int>(output % 8);
  switch (tensor.scheme.format) {
    case PackedFormat::kPackQuantized:
      return Nibble(WordAt(*tensor.zeros, output / 8, group), of_eight);
    case PackedFormat::kAwq:
      return Nibble(WordAt(*tensor.zeros, group, output / 8), kAwqPlaces[of_eight]);
    default:
      return Nibble(WordAt(*tensor.zeros, group, output / 8), of_eight) +
             (tensor.scheme.format == PackedFormat::kGptq ? 1 : 0);
  }
}

int64_t ScaleIndex(const PackedTensor& tensor, int64_t output, int64_t group) {
  const bool by_output = tensor.scheme.format == PackedFormat::kPackQuantized;
  return by_output ? output * tensor.scales.shape[1] + group
                   : group * tensor.scales.shape[1] + output;
}

// Inputs `first` to `first` + 31 of an output.
void ReadIntegers(const PackedTensor& tensor, int64_t output, int64_t first, uint8_t* integers) {
  if (tensor.scheme.format == PackedFormat::kAwq) {
    const int place = kAwqPlaces[output % 8];
    for (int i = 0; i < kBlock; ++i) {
      const uint32_t word = WordAt(tensor.integers, first + i, output / 8);
      integers[i] = static_cast<uint8_t>(Nibble(word, place));
    }
    return;
  }
  const bool by_output = tensor.scheme.format == PackedFormat::kPackQuantized;
  for (int eight = 0; eight < kBlock / 8; ++eight) {
    const int64_t at = first / 8 + eight;
    const uint32_t word =
        by_output ? WordAt(tensor.integers, output, at) : WordAt(tensor.integers, at, output);
    for (int i = 0; i < 8; ++i) integers[8 * eight + i] = static_cast<uint8_t>(Nibble(word, i));
  }
}

// A block of `type` (block_formats.h).
void WriteBlock(const PackedTensor& tensor, int64_t output, int64_t first, cpu::SourceType type,
                char* block) {
  const int64_t group = first / tensor.scheme.group;
  const int64_t index = ScaleIndex(tensor, output, group);
  const float scale = cpu::ReadValue(tensor.scales.data, SourceTypeOf(tensor.scales), index);
  if (type == cpu::SourceType::kQ4_0) {
    std::memcpy(block, static_cast<const char*>(tensor.scales.data) + index * 2, 2);
    block += 2;
  } else {
    std::memcpy(block, &scale, sizeof(scale));
    block += sizeof(scale);
  }
  if (type == cpu::SourceType::kQ4_1F) {
    const float minimum = -scale * static_cast<float>(ZeroPoint(tensor, output, group));
    std::memcpy(block, &minimum, sizeof(minimum));
    block += sizeof(minimum);
  }
  uint8_t integers[kBlock];
  ReadIntegers(tensor, output, first, integers);
  for (int i = 0; i < kBlock / 2; ++i) {
    block[i] = static_cast<char>(integers[i] | integers[i + kBlock / 2] << 4);
  }
}

}  // namespace

std::optional<cpu::SourceType> BlocksOf(const PackedTensor& tensor) {
  bool centered = true;
  if (tensor.zeros.has_value()) {
    const int64_t groups = tensor.inputs / tensor.scheme.group;
    for (int64_t output = 0; output < tensor.outputs; ++output) {
      for (int64_t group = 0; group < groups; ++group) {
        const int zero = ZeroPoint(tensor, output, group);
        if (zero > 15) return std::nullopt;
        centered = centered && zero == kMiddle;
        if (!centered && tensor.scheme.format != PackedFormat::kGptq) break;
      }
    }
  }
  if (!centered) return cpu::SourceType::kQ4_1F;
  return tensor.scales.dtype == "F16" ? cpu::SourceType::kQ4_0 : cpu::SourceType::kQ4_0F;
}

cpu::Buffer Unpack(const TensorView& view) {
  const PackedTensor& tensor = *view.packed;
  const cpu::SourceType type = SourceTypeOf(view);
  const size_t bytes = cpu::BlockShapeOf(type).bytes;
  cpu::Buffer blocks(view.bytes);
  char* at = static_cast<char*>(blocks.data());
  for (int64_t row = 0; row < view.shape[0]; ++row) {
    for (int64_t first = 0; first < tensor.inputs; first += kBlock, at += bytes) {
      WriteBlock(tensor, tensor.first + row, first, type, at);
    }
  }
  return blocks;
}

}  // namespace tandem::model
