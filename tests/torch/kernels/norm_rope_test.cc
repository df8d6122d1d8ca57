// Norm, rotation and the write to the cache, on the host, against model/'s own.
#include "torch/kernels/norm_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/cpu/kernels.h"
#include "model/rope_table.h"

namespace tandem::kernels::norm_rope_test {
namespace {

template <int kSize>
struct TestTraits {
  static constexpr int kThreads = kSize;
  static inline NormRopeFault kFault = NormRopeFault::kNone;
};

constexpr ThreadOrder kOrders[] = {ThreadOrder::kAscending, ThreadOrder::kDescending,
                                   ThreadOrder::kOddFirst};

std::vector<float> Noise(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

template <typename Element>
std::vector<typename Element::Word> Stored(const std::vector<float>& values) {
  std::vector<typename Element::Word> words;
  for (float value : values) words.push_back(Element::Store(value));
  return words;
}

template <typename Element>
std::vector<float> Loaded(const std::vector<typename Element::Word>& words) {
  std::vector<float> values;
  for (const auto& word : words) values.push_back(Element::Load(word));
  return values;
}

// The rows' norms; `residual` is changed.
template <int kThreads, typename Element = Float32>
std::vector<float> RunNorm(std::vector<float>& residual, const std::vector<float>& added,
                           const std::vector<float>& weight, ThreadOrder order) {
  std::vector<typename Element::Word> out(residual.size(), Element::Store(NAN));
  const std::vector<typename Element::Word> words = Stored<Element>(added);
  AddNormArguments a;
  a.residual = residual.data();
  a.added = words.empty() ? nullptr : words.data();
  a.weight = weight.data();
  a.out = out.data();
  a.size = static_cast<uint32_t>(weight.size());
  a.epsilon = 1e-2f;
  AddNormShared shared;
  for (uint32_t row = 0; row < residual.size() / weight.size(); ++row) {
    AddNorm<TestTraits<kThreads>, Element>(Block(row, 0, kThreads, order), shared, a);
  }
  return Loaded<Element>(out);
}

// Of one row: squares in lanes of kNormLanes, and a tree of those.
std::vector<float> PlainNorm(const float* x, const std::vector<float>& weight) {
  std::vector<float> lanes(kNormLanes), out(weight.size());
  for (size_t i = 0; i < out.size(); ++i) {
    lanes[i % kNormLanes] = std::fma(x[i], x[i], lanes[i % kNormLanes]);
  }
  for (size_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  const float scale = 1.0f / std::sqrt(lanes[0] / static_cast<float>(out.size()) + 1e-2f);
  for (size_t i = 0; i < out.size(); ++i) out[i] = weight[i] * (x[i] * scale);
  return out;
}

std::string CheckNorm() {
  constexpr size_t kRows = 12;
  for (size_t size : {7u, 256u, 300u, 1000u, 4096u, 4200u, 4099u}) {
    const std::vector<float> before = Noise(kRows * size, size),
                             added = Noise(kRows * size, size + 1);
    const std::vector<float> weight = Noise(size, size + 2);
    std::vector<float> sum = before, residual = before;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += added[i];
    const std::vector<float> out = RunNorm<64>(residual, added, weight, kOrders[size % 3]);
    if (residual != sum) return "the residual";
    const int padded = model::cpu::RoundUpToPanel(static_cast<int>(size));
    for (size_t row = 0; row < kRows; ++row) {
      std::vector<float> x(padded), w(padded), expected(padded);
      std::copy_n(sum.begin() + row * size, size, x.begin());
      std::copy_n(weight.begin(), size, w.begin());
      model::cpu::kPortableKernels.rms_norm(x.data(), w.data(), static_cast<int>(size), padded,
                                            1e-2f, expected.data());
      const std::vector<float> plain = PlainNorm(x.data(), weight);
      std::vector<float> alone(x.begin(), x.begin() + size);
      const std::vector<float> out_alone = RunNorm<32>(alone, {}, weight, kOrders[row % 3]);
      for (size_t i = 0; i < size; ++i) {
        const float got = out[row * size + i];
        if (!(std::abs(got - expected[i]) <= 1e-5f * (1 + std::abs(expected[i])))) {
          return absl::StrCat("norm ", got, ", expected ", expected[i]);
        }
        if (got != plain[i]) return "the order of the squares";
        if (got != out_alone[i]) return "a row alone, or in a smaller block, has other bits";
      }
    }
  }
  return "";
}

TEST(AddNorm, EqualsTheCpusAndARowAlone) { EXPECT_EQ(CheckNorm(), ""); }

template <typename Element>
class AddNormTypes : public ::testing::Test {};
using SixteenBits = ::testing::Types<Bfloat16, Float16>;
TYPED_TEST_SUITE(AddNormTypes, SixteenBits);

TYPED_TEST(AddNormTypes, AreReadAndWritten) {
  const std::vector<float> before = Noise(600, 1), weight = Noise(300, 2);
  const std::vector<float> added = Loaded<TypeParam>(Stored<TypeParam>(Noise(600, 3)));
  std::vector<float> half = before, whole = before;
  const std::vector<float> expected = RunNorm<64>(whole, added, weight, kOrders[0]);
  EXPECT_EQ((RunNorm<64, TypeParam>(half, added, weight, kOrders[1])),
            Loaded<TypeParam>(Stored<TypeParam>(expected)));
  EXPECT_EQ(half, whole);
}

// residual += 0.5 · norm(added), to the bit, and the norm of that, or itself.
template <typename Element>
std::string CheckPostNorm() {
  constexpr size_t kRows = 3;
  for (size_t size : {7u, 600u, 4200u, 4099u}) {
    const std::vector<float> before = Noise(kRows * size, size);
    const auto added = Stored<Element>(Noise(kRows * size, size + 1));
    const std::vector<float> added_weight = Noise(size, 3), weight = Noise(size, 4);
    for (bool weighted : {true, false}) {
      std::vector<float> residual = before;
      std::vector<typename Element::Word> out(residual.size(), Element::Store(NAN));
      AddNormArguments a;
      a.residual = residual.data();
      a.added = added.data();
      a.added_weight = added_weight.data();
      a.added_scale = 0.5f;
      a.weight = weighted ? weight.data() : nullptr;
      a.out = out.data();
      a.size = static_cast<uint32_t>(size);
      a.epsilon = 1e-2f;
      AddNormShared shared;
      for (uint32_t row = 0; row < kRows; ++row) {
        AddNorm<TestTraits<64>, Element>(Block(row, 0, 64, kOrders[row]), shared, a);
      }
      for (size_t row = 0; row < kRows; ++row) {
        const auto begin = added.begin() + static_cast<ptrdiff_t>(row * size);
        const std::vector<float> more =
            Loaded<Element>({begin, begin + static_cast<ptrdiff_t>(size)});
        std::vector<float> x = PlainNorm(more.data(), added_weight);
        for (size_t i = 0; i < size; ++i) x[i] = before[row * size + i] + x[i] * 0.5f;
        const auto expected = Stored<Element>(weighted ? PlainNorm(x.data(), weight) : x);
        for (size_t i = 0; i < size; ++i) {
          if (residual[row * size + i] != x[i]) return "the residual";
          if (out[row * size + i] != expected[i]) return "its norm";
        }
      }
    }
  }
  return "";
}

TEST(AddNorm, WhatIsAddedMayBeNormedAndTheSumNot) {
  EXPECT_EQ(CheckPostNorm<Float32>(), "");
  EXPECT_EQ(CheckPostNorm<Bfloat16>(), "");
  EXPECT_EQ(CheckPostNorm<Float16>(), "");
}

TEST(AddNorm, PlantedFaultsAreFound) {
  for (NormRopeFault fault : {NormRopeFault::kEpsilonForgotten, NormRopeFault::kSumByThread}) {
    TestTraits<64>::kFault = fault;
    TestTraits<32>::kFault = fault;
    EXPECT_NE(CheckNorm(), "") << static_cast<int>(fault);
  }
  for (NormRopeFault fault : {NormRopeFault::kPostNormForgotten, NormRopeFault::kScaleForgotten,
                              NormRopeFault::kPlusOneForgotten}) {
    TestTraits<64>::kFault = fault;
    EXPECT_NE(CheckPostNorm<Float32>(), "") << static_cast<int>(fault);
  }
  TestTraits<64>::kFault = NormRopeFault::kNone;
  TestTraits<32>::kFault = NormRopeFault::kNone;
}

enum class HeadNorm { kNone, kEach, kTogether };

// x becomes its RMS norm.
void NormHeads(float* x, size_t size, const float* weight) {
  double sum = 0;
  for (size_t i = 0; i < size; ++i) sum += double{x[i]} * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(size) + 1e-2);
  for (size_t i = 0; i < size; ++i) x[i] = static_cast<float>(weight[i] * (x[i] * scale));
}

bool Near(float a, float b, float tolerance) {
  return std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

// Rows of two sequences; the last two are branches of a tree, whose cells are not their positions.
// `share` of a head's elements rotates. Without norms to the bit.
template <typename Element>
std::string CheckRope(ThreadOrder order, bool biased = true, HeadNorm norm = HeadNorm::kNone,
                      double share = 1, uint32_t heads = 3) {
  constexpr uint32_t kKvHeads = 2, kHeadSize = 10;
  const uint32_t all = heads + 2 * kKvHeads;
  const std::vector<uint32_t> pages = {3, 1, 0, 2};
  const std::vector<CacheRow> rows = {{0, 0, 0},   {0, 255, 255}, {0, 256, 256},
                                      {2, 17, 17}, {2, 300, 300}, {2, 300, 302}};
  model::RopeSpec spec;
  spec.partial_rotary_factor = share > 0 ? share : 1;
  const uint32_t rotated_pairs =
      share > 0 ? static_cast<uint32_t>(spec.rotary_size(kHeadSize)) / 2 : 0;
  model::RopeTable table(spec, kHeadSize);
  table.Grow(512);
  // The table's own cosines, read by rotating units.
  std::vector<float> cosines, sines;
  for (int position = 0; position < 512; ++position) {
    for (uint32_t pair = 0; pair < rotated_pairs; ++pair) {
      std::vector<float> unit(kHeadSize), turned(kHeadSize);
      unit[pair] = 1;
      table.Rotate(unit.data(), position, 1, turned.data());
      cosines.push_back(turned[pair]);
      sines.push_back(turned[pair + rotated_pairs]);
    }
  }
  const std::vector<typename Element::Word> qkv =
      Stored<Element>(Noise(rows.size() * all * kHeadSize, 5));
  const std::vector<float> bias = Noise(all * kHeadSize, 6);
  const std::vector<float> q_norm = Noise(heads * kHeadSize, 7);
  const std::vector<float> k_norm = Noise(kKvHeads * kHeadSize, 8);
  std::vector<float> queries(rows.size() * heads * kHeadSize, NAN);
  RopeWriteArguments a;
  a.layer = {.offset = 4,
             .page_words = uint64_t{2} * kKvHeads * kPageCells * kHeadSize + 6,
             .value_words = kPageCells * kHeadSize,
             .cell_words = kHeadSize,
             .head_words = 2 * kPageCells * kHeadSize,
             .kv_heads = kKvHeads,
             .head_size = kHeadSize};
  std::vector<typename Element::Word> pool(4 * a.layer.page_words);
  const std::vector<typename Element::Word> empty = pool;
  a.rows = rows.data();
  a.pages = pages.data();
  a.pool = pool.data();
  a.heads = heads;
  a.query_scale = 0.25f;
  a.qkv = qkv.data();
  a.bias = biased ? bias.data() : nullptr;
  if (norm != HeadNorm::kNone) {
    a.q_norm = q_norm.data();
    a.k_norm = k_norm.data();
    a.epsilon = 1e-2f;
    a.norm_together = norm == HeadNorm::kTogether ? 1 : 0;
  }
  a.rotated_pairs = rotated_pairs;
  a.cosines = cosines.data();
  a.sines = sines.data();
  a.queries = queries.data();
  RopeWriteShared shared;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    for (uint32_t column = 0; column * HeadsOfBlock(32, kHeadSize) < all; ++column) {
      RopeWrite<TestTraits<32>, Element>(Block(row, column, 32, order), shared, a);
    }
  }
  const float tolerance = norm == HeadNorm::kNone ? 0 : 1e-5f;
  std::vector<typename Element::Word> expected = empty;
  for (size_t i = 0; i < rows.size(); ++i) {
    const CacheRow& row = rows[i];
    std::vector<float> of_row;
    for (uint32_t at = 0; at < all * kHeadSize; ++at) {
      of_row.push_back(Element::Load(qkv[i * all * kHeadSize + at]) + (biased ? bias[at] : 0));
    }
    if (norm == HeadNorm::kTogether) {
      NormHeads(of_row.data(), heads * kHeadSize, q_norm.data());
      NormHeads(of_row.data() + heads * kHeadSize, kKvHeads * kHeadSize, k_norm.data());
    } else if (norm == HeadNorm::kEach) {
      for (uint32_t head = 0; head < heads + kKvHeads; ++head) {
        NormHeads(of_row.data() + head * kHeadSize, kHeadSize,
                  head < heads ? q_norm.data() : k_norm.data());
      }
    }
    const float* in = of_row.data();
    std::vector<float> turned(kHeadSize);
    for (uint32_t head = 0; head < all; ++head, in += kHeadSize) {
      const bool query = head < heads, key = !query && head < heads + kKvHeads;
      table.Rotate(in, static_cast<int>(row.position), query ? 0.25f : 1, turned.data());
      for (uint32_t d = 0; share == 0 && d < kHeadSize; ++d)
        turned[d] = in[d] * (query ? 0.25f : 1);
      if (query) {
        for (uint32_t d = 0; d < kHeadSize; ++d) {
          if (!Near(queries[(i * heads + head) * kHeadSize + d], turned[d], tolerance)) {
            return absl::StrCat("query of row ", i);
          }
        }
        continue;
      }
      const uint32_t kv_head = key ? head - heads : head - heads - kKvHeads;
      const uint64_t at =
          a.layer.KeyOf(pages[row.first_page + row.cell / kPageCells], row.cell, kv_head) +
          (key ? 0 : a.layer.value_words);
      for (uint32_t d = 0; d < kHeadSize; ++d) {
        expected[at + d] = Element::Store(key ? turned[d] : in[d]);
      }
    }
  }
  for (size_t i = 0; i < pool.size(); ++i) {
    if (!Near(Element::Load(pool[i]), Element::Load(expected[i]), tolerance)) return "the cache";
  }
  return "";
}

TEST(RopeWrite, HasTheBitsOfTheCpusAndTouchesNoOtherCell) {
  for (ThreadOrder order : kOrders) {
    EXPECT_EQ(CheckRope<Float32>(order), "");
    EXPECT_EQ(CheckRope<Bfloat16>(order), "");
    EXPECT_EQ(CheckRope<Float16>(order), "");
    EXPECT_EQ(CheckRope<Float32>(order, /*biased=*/false), "");
  }
}

TEST(RopeWrite, QueriesAndKeysAreNormedFirstEachHeadOrTogether) {
  for (ThreadOrder order : kOrders) {
    for (HeadNorm norm : {HeadNorm::kEach, HeadNorm::kTogether}) {
      for (bool biased : {true, false}) EXPECT_EQ(CheckRope<Float32>(order, biased, norm), "");
    }
  }
  // More numbers than all lanes take at a time.
  EXPECT_EQ(CheckRope<Float32>(kOrders[1], true, HeadNorm::kTogether, 1, /*heads=*/450), "");
}

TEST(RopeWrite, APartOfEachHeadIsRotatedOrNothing) {
  for (double share : {0.6, 0.0}) {
    EXPECT_EQ(CheckRope<Float32>(kOrders[0], true, HeadNorm::kNone, share), "");
    EXPECT_EQ(CheckRope<Bfloat16>(kOrders[2], false, HeadNorm::kNone, share), "");
  }
}

TEST(RopeWrite, PlantedFaultsAreFound) {
  for (NormRopeFault fault :
       {NormRopeFault::kAngleOfCell, NormRopeFault::kNeighboursPaired, NormRopeFault::kKeyUnrotated,
        NormRopeFault::kPagesIgnored, NormRopeFault::kBiasForgotten}) {
    TestTraits<32>::kFault = fault;
    EXPECT_NE(CheckRope<Float32>(kOrders[0]), "") << static_cast<int>(fault);
  }
  for (NormRopeFault fault :
       {NormRopeFault::kEpsilonForgotten, NormRopeFault::kPlusOneForgotten,
        NormRopeFault::kHeadNormOfWidth, NormRopeFault::kHeadNormAfterRotation}) {
    TestTraits<32>::kFault = fault;
    for (HeadNorm norm : {HeadNorm::kEach, HeadNorm::kTogether}) {
      EXPECT_NE(CheckRope<Float32>(kOrders[0], true, norm), "") << static_cast<int>(fault);
    }
  }
  TestTraits<32>::kFault = NormRopeFault::kAllRotated;
  EXPECT_NE(CheckRope<Float32>(kOrders[0], true, HeadNorm::kNone, 0.6), "");
  TestTraits<32>::kFault = NormRopeFault::kNone;
}

// Of a number that is stored: the largest relative error, and the largest one of numbers near 0.
template <typename Element>
constexpr double kPrecision = 1e-6;
template <>
constexpr double kPrecision<Bfloat16> = 0x1p-8;
template <>
constexpr double kPrecision<Float16> = 0x1p-11;
template <typename Element>
constexpr double kSmallest = 1e-30;
template <>
constexpr double kSmallest<Float16> = 0x1p-25;

// Of rows [2 * size] at `in`.
template <typename Element>
std::vector<typename Element::Word> RunGate(const typename Element::Word* in, uint32_t rows,
                                            uint32_t size, ThreadOrder order, GateKind kind) {
  using Traits = TestTraits<32>;
  std::vector<typename Element::Word> out(rows * size, Element::Store(NAN));
  GateArguments a;
  a.in = in;
  a.out = out.data();
  a.size = size;
  a.kind = kind;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column * GateColumn(Traits::kThreads) < size; ++column) {
      Gate<Traits, Element>(Block(row, column, 32, order), a);
    }
  }
  return out;
}

// Empty, or what is wrong.
template <typename Element>
std::string CheckGate(ThreadOrder order, GateKind kind = GateKind::kSilu) {
  constexpr uint32_t kRows = 3, kSize = 100;
  std::vector<float> values = Noise(kRows * 2 * kSize, 8);
  for (size_t i = 0; i < values.size(); i += 7) values[i] *= 60;  // exp of them is infinite, or 0
  const std::vector<typename Element::Word> in = Stored<Element>(values);
  const auto out = RunGate<Element>(in.data(), kRows, kSize, order, kind);
  constexpr double kRelative = kPrecision<Element> + 1e-6;
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t i = 0; i < kSize; ++i) {
      const double gate = Element::Load(in[row * 2 * kSize + i]);
      const double up = Element::Load(in[row * 2 * kSize + kSize + i]);
      const double root = std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
      const double expected = (kind == GateKind::kSilu ? gate / (1 + std::exp(-gate))
                                                       : gate / (1 + std::exp(-2 * root))) *
                              up;
      const double got = Element::Load(out[row * kSize + i]);
      if (!(std::abs(got - expected) <= kRelative * std::abs(expected) + kSmallest<Element>)) {
        return absl::StrCat("gate ", gate, " of ", up, ": ", got, ", expected ", expected);
      }
    }
  }
  return "";
}

TEST(Gate, IsTheActivationTimesTheOtherHalf) {
  for (ThreadOrder order : kOrders) {
    EXPECT_EQ(CheckGate<Float32>(order, GateKind::kGeluTanh), "");
    EXPECT_EQ(CheckGate<Bfloat16>(order, GateKind::kGeluTanh), "");
    EXPECT_EQ(CheckGate<Float32>(order), "");
    EXPECT_EQ(CheckGate<Bfloat16>(order), "");
    EXPECT_EQ(CheckGate<Float16>(order), "");
  }
  TestTraits<32>::kFault = NormRopeFault::kGateForUp;
  EXPECT_NE(CheckGate<Float32>(kOrders[0]), "");
  TestTraits<32>::kFault = NormRopeFault::kSiluForGelu;
  EXPECT_NE(CheckGate<Float32>(kOrders[0], GateKind::kGeluTanh), "");
  TestTraits<32>::kFault = NormRopeFault::kNone;
}

// Whole groups that are aligned, in three blocks of a row, and one number at a time.
template <typename Element>
void ExpectWideGateIsTheSame() {
  constexpr uint32_t kRows = 3, kSize = 1304;
  std::vector<typename Element::Word> in = Stored<Element>(Noise(kRows * 2 * kSize, 9));
  ASSERT_TRUE(IsAligned(in.data()));
  const auto wide =
      RunGate<Element>(in.data(), kRows, kSize, ThreadOrder::kOddFirst, GateKind::kSilu);
  in.insert(in.begin(), 0);
  const auto single =
      RunGate<Element>(in.data() + 1, kRows, kSize, ThreadOrder::kOddFirst, GateKind::kSilu);
  EXPECT_EQ(wide, single);
}

TEST(Gate, WideLoadsGiveTheSameBits) {
  ExpectWideGateIsTheSame<Float32>();
  ExpectWideGateIsTheSame<Bfloat16>();
  ExpectWideGateIsTheSame<Float16>();
}

}  // namespace
}  // namespace tandem::kernels::norm_rope_test
