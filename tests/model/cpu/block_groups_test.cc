// Rows of ggml's blocks in matrices by group: the integers and scales of the file, or their values
// rounded.
#include "model/cpu/block_groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/cpu/pack_groups.h"
#include "model/cpu/packed_matrix.h"
#include "tests/model/cpu/normal_values.h"

namespace tandem::model::cpu::block_groups_test {
namespace {

constexpr int kInputs = 512;
constexpr SourceType kKept[] = {SourceType::kQ4_0, SourceType::kQ4_1, SourceType::kQ5_0,
                                SourceType::kQ8_0, SourceType::kQ4_K};
constexpr SourceType kRounded[] = {SourceType::kQ5_1, SourceType::kQ5_K, SourceType::kQ6_K};

// A row of random blocks, whose fp16 numbers are small.
std::vector<uint8_t> RandomRow(SourceType type, std::mt19937& random) {
  const BlockShape shape = BlockShapeOf(type);
  std::vector<uint8_t> row(kInputs / shape.values * shape.bytes);
  for (uint8_t& byte : row) byte = static_cast<uint8_t>(random());
  const auto set = [&](int block, int at) {
    const uint16_t half = ToFloat16(std::normal_distribution<float>(0.0f, 0.01f)(random));
    std::memcpy(&row[block * shape.bytes + at], &half, sizeof(half));
  };
  for (int block = 0; block < kInputs / shape.values; ++block) {
    set(block, type == SourceType::kQ6_K ? 208 : 0);
    if (type == SourceType::kQ4_1 || type == SourceType::kQ5_1 || type == SourceType::kQ4_K ||
        type == SourceType::kQ5_K) {
      set(block, 2);
    }
  }
  return row;
}

// Rows of these types, one after the other.
struct Rows {
  Rows(const std::vector<SourceType>& types, std::mt19937& random) : types(types) {
    for (SourceType type : types) {
      bytes.push_back(RandomRow(type, random));
      values.emplace_back(kInputs);
      DequantizeRow(type, bytes.back().data(), kInputs, values.back().data());
    }
  }
  PackedMatrix Pack(WeightType type,
                    PackedMatrix::Place place = PackedMatrix::Place::kMemory) const {
    return {static_cast<int>(types.size()), kInputs, type,
            [this](int row) {
              return SourceRow{bytes[row].data(), types[row]};
            },
            place};
  }

  std::vector<SourceType> types;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<float>> values;
};

std::vector<float> Column(const PackedMatrix& matrix, int column) {
  std::vector<float> values(matrix.k());
  matrix.ReadColumn(column, values.data());
  return values;
}

std::vector<float> Product(const Kernels& kernels, const PackedMatrix& matrix,
                           const std::vector<float>& x) {
  GroupedRows rows(1, kInputs);
  rows.Quantize(*kernels.grouped, x.data(), kInputs, 0, 1);
  std::vector<float> out(matrix.columns());
  matrix.MultiplyGrouped(kernels, rows, 1, 0, matrix.panels(), Epilogue::kStore, nullptr,
                         out.data(), matrix.columns(), matrix.columns());
  return out;
}

// Of a row's values with activations that int8 has exactly, in double.
double Exact(const std::vector<float>& weights, const std::vector<float>& x) {
  double sum = 0;
  for (int i = 0; i < kInputs; ++i) sum += static_cast<double>(weights[i]) * x[i];
  return sum;
}

std::vector<float> IntegersAsActivations(std::mt19937& random) {
  std::vector<float> x(kInputs);
  for (int i = 0; i < kInputs; ++i) {
    x[i] = static_cast<float>(static_cast<int>(random() % 255) - 127);
    if (i % kGroupInputs == 0) x[i] = 127;
  }
  return x;
}

void ExpectValuesKept(const Rows& rows, const PackedMatrix& matrix, std::mt19937& random) {
  EXPECT_TRUE(matrix.exact() || matrix.in_file());
  for (int row = 0; row < matrix.columns(); ++row) {
    ASSERT_EQ(Column(matrix, row), rows.values[row]) << "row " << row;
  }
  const std::vector<float> x = IntegersAsActivations(random);
  for (const Kernels* kernels : SupportedKernels()) {
    const std::vector<float> out = Product(*kernels, matrix, x);
    for (int row = 0; row < matrix.columns(); ++row) {
      double size = 0;
      for (int i = 0; i < kInputs; ++i) size += std::fabs(double{rows.values[row][i]} * x[i]);
      ASSERT_NEAR(out[row], Exact(rows.values[row], x), 1e-6 * size) << kernels->name;
    }
  }
}

TEST(BlockGroups, KeepTheFilesIntegersAndScales) {
  std::mt19937 random(1);
  for (SourceType type : kKept) {
    SCOPED_TRACE(static_cast<int>(type));
    const Rows rows(std::vector<SourceType>(40, type), random);
    ExpectValuesKept(rows, rows.Pack(WeightType::kInt8Grouped), random);
    const bool four = LayoutOf(type).integers != Integers::kInt8;
    EXPECT_EQ(KeepsValues(type, WeightType::kInt4), four);
    if (four) ExpectValuesKept(rows, rows.Pack(WeightType::kInt4), random);
    EXPECT_TRUE(KeepsValues(type, WeightType::kInt8Grouped));
  }
}

// Bits of a panel of its own a weight: what a pass reads.
TEST(BlockGroups, TakeAsManyBitsAsTheyHave) {
  std::mt19937 random(2);
  const double bits[] = {4.5, 5, 8.5, 8.5, 6};
  for (int i = 0; i < 5; ++i) {
    const Rows rows(std::vector<SourceType>(32, kKept[i]), random);
    EXPECT_EQ(rows.Pack(WeightType::kInt8Grouped).bytes(), 32 * kInputs * bits[i] / 8);
  }
}

TEST(BlockGroups, DifferentFoursOfOnePanelAreKept) {
  std::mt19937 random(3);
  std::vector<SourceType> types;
  for (int i = 0; i < 70; ++i) {
    types.push_back(std::vector{SourceType::kQ4_0, SourceType::kQ4_1, SourceType::kQ4_K}[i % 3]);
  }
  const Rows fours(types, random);
  ExpectValuesKept(fours, fours.Pack(WeightType::kInt4), random);
  // Panels of their own: of q, k and v, say.
  types.assign(32, SourceType::kQ4_K);
  types.insert(types.end(), 32, SourceType::kQ8_0);
  types.insert(types.end(), 16, SourceType::kQ5_0);
  const Rows parts(types, random);
  ExpectValuesKept(parts, parts.Pack(WeightType::kInt8Grouped), random);
}

void ExpectRounded(const Rows& rows, const PackedMatrix& matrix, double steps) {
  EXPECT_FALSE(matrix.exact());
  for (int row = 0; row < matrix.columns(); ++row) {
    const std::vector<float> values = Column(matrix, row);
    for (int group = 0; group < kInputs / kGroupInputs; ++group) {
      const auto begin = rows.values[row].begin() + group * kGroupInputs;
      const auto [least, most] = std::minmax_element(begin, begin + kGroupInputs);
      const float range = std::max(*most, 0.0f) - std::min(*least, 0.0f);
      for (int i = 0; i < kGroupInputs; ++i) {
        ASSERT_NEAR(values[group * kGroupInputs + i], begin[i], range / steps) << row;
      }
    }
  }
}

TEST(BlockGroups, OthersAreRoundedToInt8) {
  std::mt19937 random(4);
  for (SourceType type : kRounded) {
    const Rows rows(std::vector<SourceType>(33, type), random);
    ExpectRounded(rows, rows.Pack(WeightType::kInt8Grouped), 127);
    EXPECT_FALSE(KeepsValues(type, WeightType::kInt8Grouped));
  }
  // Four bits beside eight.
  const Rows mixed({SourceType::kQ8_0, SourceType::kQ4_1, SourceType::kQ4_K}, random);
  ExpectRounded(mixed, mixed.Pack(WeightType::kInt8Grouped), 127);
}

TEST(BlockGroups, EightBitsAreRoundedToFourWhereThatIsAskedFor) {
  std::mt19937 random(5);
  const Rows rows(std::vector<SourceType>(33, SourceType::kQ8_0), random);
  ExpectRounded(rows, rows.Pack(WeightType::kInt4), 10);
}

TEST(BlockGroups, InTheFileTheyGiveTheSameBits) {
  std::mt19937 random(6);
  const std::vector<float> x = Normal(random, kInputs);
  std::vector<SourceType> types(40, SourceType::kQ4_K);
  types.insert(types.end(), 40, SourceType::kQ8_0);
  const Rows rows(types, random);
  const PackedMatrix packed = rows.Pack(WeightType::kInt8Grouped);
  const PackedMatrix filed = rows.Pack(WeightType::kInt8Grouped, PackedMatrix::Place::kFile);
  EXPECT_EQ(filed.bytes(), 0u);
  for (const Kernels* kernels : SupportedKernels()) {
    EXPECT_EQ(Product(*kernels, filed, x), Product(*kernels, packed, x)) << kernels->name;
  }
  for (int row : {0, 31, 39, 40, 79}) EXPECT_EQ(Column(filed, row), Column(packed, row));
}

// Each number of a block counts: a fault in one place shows in the row's values.
TEST(BlockGroups, EveryByteCounts) {
  std::mt19937 random(7);
  for (SourceType type : kKept) {
    Rows rows({type}, random);
    const std::vector<float> wanted = Column(rows.Pack(WeightType::kInt8Grouped), 0);
    for (int at = 0; at < BlockShapeOf(type).bytes; ++at) {
      rows.bytes[0][at] ^= 0x11;
      EXPECT_NE(Column(rows.Pack(WeightType::kInt8Grouped), 0), wanted) << at;
      rows.bytes[0][at] ^= 0x11;
    }
  }
}

}  // namespace
}  // namespace tandem::model::cpu::block_groups_test
