// ggml's blocks against the values that the package `gguf` has of them
// (tests/model/goldens/make_blocks.py).
#include "model/cpu/block_formats.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "model/files/safetensors.h"
#include "tests/support/paths.h"

namespace tandem::model::cpu::block_formats_test {
namespace {

const std::pair<const char*, SourceType> kTypes[] = {
    {"Q4_0", SourceType::kQ4_0}, {"Q4_1", SourceType::kQ4_1}, {"Q5_0", SourceType::kQ5_0},
    {"Q5_1", SourceType::kQ5_1}, {"Q8_0", SourceType::kQ8_0}, {"Q4_K", SourceType::kQ4_K},
    {"Q5_K", SourceType::kQ5_K}, {"Q6_K", SourceType::kQ6_K}};

TEST(BlockFormats, HaveBitForBitTheValuesOfGgufsPackage) {
  auto file =
      SafetensorsFile::Open(tandem::testing::SourcePath("tests/model/goldens/blocks.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2 * std::size(kTypes)) << "a type of the file has no test";
  for (const auto& [name, type] : kTypes) {
    SCOPED_TRACE(name);
    const TensorView& blocks = (*file)->tensors().at(std::string(name) + ".blocks");
    const TensorView& values = (*file)->tensors().at(std::string(name) + ".values");
    ASSERT_EQ(blocks.shape[1], BlockShapeOf(type).bytes);
    ASSERT_EQ(values.shape[1], BlockShapeOf(type).values);
    const int64_t count = Elements(values);
    std::vector<float> expected(count), row(count);
    std::memcpy(expected.data(), values.data, values.bytes);
    DequantizeRow(type, blocks.data, count, row.data());
    EXPECT_TRUE(BlocksAreFinite(type, blocks.data, count));
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<uint32_t>(expected[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(row[i]), bits)
          << i << ": " << row[i] << ", " << expected[i];
      const float alone = ReadValue(blocks.data, type, i);
      ASSERT_EQ(std::bit_cast<uint32_t>(alone), bits) << i << ": " << alone << ", " << expected[i];
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu::block_formats_test
