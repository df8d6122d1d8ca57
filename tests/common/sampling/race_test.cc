// The Gumbel race at full size: 128,256 tokens, one of them with half of all probability. A race is
// won near 0, at 1/128,256 of the numbers' range: numbers of 24 bits are too coarse there and would
// give the heavy token 0.502.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/random/random.h"
#include "common/sampling/distribution.h"
#include "gtest/gtest.h"
#include "tests/support/chi_square.h"

namespace tandem::sampling {
namespace {

using testing::ChiSquare;
using testing::GoodnessOfFit;

constexpr uint32_t kVocabulary = 128'256;
constexpr uint32_t kHeavy = 77'777;
constexpr double kLight = 0.5 / (kVocabulary - 1);

// As many as take a second or two. They see whether the race is of all tokens, by p; 0.002 is too
// fine for them (that takes millions of draws): the two tests below look there.
TEST(RaceTest, AtFullSize) {
  Distribution p;
  for (uint32_t id = 0; id < kVocabulary; ++id) {
    p.ids.push_back(id);
    p.probabilities.push_back(id == kHeavy ? 0.5 : kLight);
  }
  // Heavy; light ones in four parts of the vocabulary; even and odd ids, which share a block of
  // bits.
  std::vector<int64_t> heavy(2), parts(4), parity(2);
  for (uint32_t position = 0; position < 1500; ++position) {
    const uint32_t token = DrawRace(p, 5, 1, position);
    ++heavy[token == kHeavy ? 0 : 1];
    if (token == kHeavy) continue;
    ++parts[token / (kVocabulary / 4)];
    ++parity[token % 2];
  }
  for (const auto& [counts, cells] : {std::pair(&heavy, 2), {&parts, 4}, {&parity, 2}}) {
    const ChiSquare fit = GoodnessOfFit(std::vector<double>(cells, 1.0 / cells), *counts);
    EXPECT_TRUE(fit.Passes()) << fit.ToString();
  }
}

double Number(uint32_t i) { return random::Uniform({21, 0, i}, i, random::Purpose::kUser); }

// The same race with numbers (k + offset) / 2^bits, reduced to two: the heavy token's, and the
// least of the n light ones, which by itself is drawn from its law, P(least k >= m) = (1 - m /
// 2^bits)^n. Equal in law to the race of all, at a hundred-thousandth of its price.
ChiSquare ReducedRace(int bits, double offset, int draws) {
  const double cells = std::ldexp(1, bits);
  std::vector<int64_t> counts(2);
  for (int i = 0; i < draws; ++i) {
    const double heavy = std::floor(Number(2 * i) * cells) + offset;
    const double min =
        std::floor(-std::expm1(std::log1p(-Number(2 * i + 1)) / (kVocabulary - 1)) * cells) +
        offset;
    const double heavy_time = -std::log1p(-heavy / cells) / 0.5;
    const double light_time = -std::log1p(-min / cells) / kLight;
    ++counts[heavy_time < light_time ? 0 : 1];
  }
  return GoodnessOfFit({0.5, 0.5}, counts);
}

TEST(RaceTest, NumbersOfFiftyTwoBitsAreFineEnough) {
  // As TokenUniform makes them: odd multiples of 2^-53.
  const ChiSquare fit = ReducedRace(52, 0.5, 5'000'000);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
}

TEST(RaceTest, NumbersOfTwentyFourBitsAreCaught) {
  for (double offset : {0.0, 1.0}) {  // numbers in [0, 1), in (0, 1]
    const ChiSquare fit = ReducedRace(24, offset, 5'000'000);
    EXPECT_TRUE(fit.ControlIsCaught()) << fit.ToString();
  }
}

// Where the least of the light ones lies the real numbers are as dense as elsewhere, and fine:
// their places within a cell of 2^-24, and of 2^-32, are even.
std::vector<ChiSquare> NearZero(int bits) {
  std::vector<uint32_t> tokens(kVocabulary);
  for (uint32_t id = 0; id < kVocabulary; ++id) tokens[id] = id;
  std::vector<double> numbers(kVocabulary);
  constexpr double kNear = 0x1p-12;
  std::vector<int64_t> counts(64), in_24(64), in_32(64);
  for (uint32_t position = 0; position < 200; ++position) {
    random::TokenUniforms(5, 1, position, tokens, absl::MakeSpan(numbers));
    for (double u : numbers) {
      if (u >= kNear) continue;
      u = (std::floor(std::ldexp(u, bits)) + 0.5) *
          std::ldexp(1, -bits);  // the control's; else u itself
      ++counts[static_cast<size_t>(u / kNear * 64)];
      ++in_24[static_cast<size_t>((u * 0x1p24 - std::floor(u * 0x1p24)) * 64)];
      ++in_32[static_cast<size_t>((u * 0x1p32 - std::floor(u * 0x1p32)) * 64)];
    }
  }
  const std::vector<double> even(64, 1.0 / 64);
  return {GoodnessOfFit(even, counts), GoodnessOfFit(even, in_24), GoodnessOfFit(even, in_32)};
}

TEST(RaceTest, TheNumbersThatWinAreFine) {
  for (const ChiSquare& fit : NearZero(52)) EXPECT_TRUE(fit.Passes()) << fit.ToString();
  const std::vector<ChiSquare> coarse = NearZero(24);
  EXPECT_TRUE(coarse[1].ControlIsCaught()) << coarse[1].ToString();
  EXPECT_TRUE(coarse[2].ControlIsCaught()) << coarse[2].ToString();
}

}  // namespace
}  // namespace tandem::sampling
