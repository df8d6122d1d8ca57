#include "common/random/random.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "common/random/token_pairs.h"
#include "gtest/gtest.h"
#include "tests/support/chi_square.h"

namespace tandem::random {
namespace {

using testing::ChiSquare;
using testing::GoodnessOfFit;

// kat_vectors of the Random123 distribution, philox4x32 10.
TEST(PhiloxTest, PublishedKnownAnswers) {
  struct Case {
    philox4x32_ctr_t counter;
    philox4x32_key_t key;
    philox4x32_ctr_t answer;
  };
  const Case cases[] = {
      {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       {{0xffffffff, 0xffffffff}},
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       {{0xa4093822, 0x299f31d0}},
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Case& c : cases) {
    philox4x32_ctr_t answer = philox4x32_R(10, c.counter, c.key);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(answer.v[i], c.answer.v[i]);
  }
}

// Computed by a second implementation of Philox and of the layout (Python, written from the paper).
// A change of any of these changes the text of every seed.
TEST(RandomTest, GoldenValues) {
  const uint64_t wide = 0x0123'4567'89ab'cdef;
  EXPECT_EQ(Uniform({0, 0, 0}, 0, Purpose::kAccept), 0x1.bf15fa69bb174p-3);
  EXPECT_EQ(Uniform({1, 0, 10}, 10, Purpose::kAccept), 0x1.a9d5ad6e72270p-3);
  EXPECT_EQ(Uniform({1, 0, 10}, 11, Purpose::kAccept), 0x1.50bf90f23ea61p-1);
  EXPECT_EQ(Uniform({1, 0, 10}, 10, Purpose::kRecovered), 0x1.42b5c48529e44p-1);
  EXPECT_EQ(Uniform({1, 0, 10}, 10, Purpose::kBonus), 0x1.3536f4187e742p-2);
  EXPECT_EQ(Uniform({1, 0, 10}, 10, Purpose::kDraft, 1), 0x1.ad8177f416a80p-7);
  EXPECT_EQ(Uniform({wide, 65535, 0xffffffff}, 0xffffffff, Purpose::kUser, 255),
            0x1.01ee2ea03b573p-1);
  EXPECT_EQ(TokenUniform(0, 0, 0, 0), 0x1.294960134fb74p-3);
  EXPECT_EQ(TokenUniform(1, 0, 10, 6), 0x1.ca943bc6d889ap-2);
  EXPECT_EQ(TokenUniform(1, 0, 10, 7), 0x1.a9b93f31b58ebp-1);
  EXPECT_EQ(TokenUniform(wide, 65535, 0xffffffff, 0xffffffff), 0x1.0b1d4c8ccca55p-1);
  EXPECT_EQ(DeriveDraftSeed(0), 0x74ec'97d9'e678'da41u);
  EXPECT_EQ(DeriveDraftSeed(1), 0xd41f'5336'2e41'971cu);
  EXPECT_EQ(DeriveDraftSeed(~uint64_t{0}), 0x7f9f'044e'f4ca'4debu);
}

TEST(RandomTest, ManyTokensAreTheSameAsOneByOne) {
  std::vector<uint32_t> tokens = {0, 1, 2, 4, 5, 7, 9, 10, 12, 13, 31, 32, 95};
  // From an even and from an odd one on, close and less so, with a gap, and the last ones there
  // are.
  for (uint32_t first : {128u, 401u, 0u - 97u}) {
    for (uint32_t i = 0; i < 97; ++i) tokens.push_back(first + i);
  }
  tokens.erase(tokens.begin() + 60);
  for (uint32_t step : {2u, 3u, 5u, 40u}) {
    for (uint32_t i = 0; i < 40; ++i) tokens.push_back(step * 5'000 + step * i);
  }
  std::sort(tokens.begin(), tokens.end());
  std::vector<double> numbers(tokens.size());
  TokenUniforms(5, 3, 77, tokens, absl::MakeSpan(numbers));
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(numbers[i], TokenUniform(5, 3, 77, tokens[i])) << tokens[i];
  }
}

// By each instruction set: all words of the key, and a pair's number near its ends.
TEST(RandomTest, PairsAreTheSameByEachInstructionSet) {
  for (const FillPairs fill : SupportedFillPairs()) {
    for (uint32_t first : {0u, 1u, 24'575u, 0x7fff'ffffu - static_cast<uint32_t>(kPairs) + 1}) {
      for (uint64_t seed : {uint64_t{0}, uint64_t{0x0123'4567'89ab'cdef}, ~uint64_t{0}}) {
        for (uint32_t position : {0u, 0x8000'0001u, 0xffff'ffffu}) {
          double numbers[2 * kPairs];
          // Purpose kPlain, and the layout of tokens.
          fill({seed, position, 65'535 | 5u << 16, 1}, first, numbers);
          for (uint32_t i = 0; i < 2 * kPairs; ++i) {
            ASSERT_EQ(numbers[i], TokenUniform(seed, 65'535, position, 2 * first + i))
                << first << " and " << i;
          }
        }
      }
    }
  }
}

// Each part of a key in its extremes and each single bit: no two keys give the same 53 bits (the
// chance that any of the pairs here does is below 1e-9).
TEST(RandomTest, EveryPartOfAKeyCounts) {
  std::set<double> seen;
  size_t keys = 0;
  auto add = [&](double value) {
    seen.insert(value);
    ++keys;
  };
  std::vector<uint32_t> words = {0, 0xffffffff};
  for (int bit = 0; bit < 32; ++bit) words.push_back(1u << bit);
  for (uint32_t word : words) {
    for (uint32_t other : {0x5a5a0000u, 3u}) {
      for (int purpose = 1; purpose <= 7; ++purpose) {
        Purpose p = static_cast<Purpose>(purpose);
        add(Uniform({word, 1, other}, 7, p));
        add(Uniform({uint64_t{word} << 32 | 0x1234, 1, other}, 7, p));
        add(Uniform({77, word & 0xffff, other + word / 0x10000}, 7, p, 9));
        add(Uniform({78, 1, word}, other, p));
        add(Uniform({79, 1, other}, word, p));
        add(Uniform({80, 1, other ^ word}, 7, p, static_cast<uint8_t>(word)));
      }
      add(TokenUniform(81, 1, word, other));
      add(TokenUniform(82, 1, other, word));
    }
  }
  EXPECT_EQ(seen.size(), keys);
}

TEST(RandomDeathTest, SampleIndexHasSixteenBits) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(Uniform({0, 65536, 0}, 0, Purpose::kAccept), "sample index 65536");
}

ChiSquare Uniformity(const std::vector<double>& numbers, int cells) {
  std::vector<double> p(cells, 1.0 / cells);
  std::vector<int64_t> counts(cells);
  for (double u : numbers) {
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
    ++counts[static_cast<int>(u * cells)];
  }
  return GoodnessOfFit(p, counts);
}

// Pairs of numbers of neighbouring keys fill the unit square evenly.
ChiSquare Independence(const std::vector<double>& a, const std::vector<double>& b, int side) {
  std::vector<double> p(side * side, 1.0 / (side * side));
  std::vector<int64_t> counts(side * side);
  for (size_t i = 0; i < a.size(); ++i) {
    ++counts[static_cast<int>(a[i] * side) * side + static_cast<int>(b[i] * side)];
  }
  return GoodnessOfFit(p, counts);
}

TEST(RandomTest, UniformAndIndependentOverNeighbouringKeys) {
  constexpr uint32_t kCount = 100'000;
  std::vector<double> base, position, committed, purpose, level, sample, seed;
  for (uint32_t i = 0; i < kCount; ++i) {
    RoundKey key{3, 5, i};
    base.push_back(Uniform(key, i, Purpose::kAccept));
    position.push_back(Uniform(key, i + 1, Purpose::kAccept));
    committed.push_back(Uniform({3, 5, i + 1}, i, Purpose::kAccept));
    purpose.push_back(Uniform(key, i, Purpose::kRecovered));
    level.push_back(Uniform(key, i, Purpose::kAccept, 1));
    sample.push_back(Uniform({3, 6, i}, i, Purpose::kAccept));
    seed.push_back(Uniform({4, 5, i}, i, Purpose::kAccept));
  }
  for (const auto* other : {&position, &committed, &purpose, &level, &sample, &seed}) {
    ChiSquare alone = Uniformity(*other, 1000);
    EXPECT_TRUE(alone.Passes()) << alone.ToString();
    ChiSquare pairs = Independence(base, *other, 32);
    EXPECT_TRUE(pairs.Passes()) << pairs.ToString();
  }
}

TEST(RandomTest, TokenNumbersAreUniformAlsoNearTheEnds) {
  constexpr uint32_t kTokens = 128 * 1024;
  std::vector<uint32_t> tokens(kTokens);
  for (uint32_t i = 0; i < kTokens; ++i) tokens[i] = i;
  std::vector<double> even, odd, all, numbers(kTokens);
  double min = 1, max = 0;
  for (uint32_t position = 0; position < 8; ++position) {
    TokenUniforms(11, 0, position, tokens, absl::MakeSpan(numbers));
    for (uint32_t i = 0; i < kTokens; ++i) {
      ASSERT_GT(numbers[i], 0);
      ASSERT_LT(numbers[i], 1);
      (i % 2 == 0 ? even : odd).push_back(numbers[i]);
    }
    all.insert(all.end(), numbers.begin(), numbers.end());
    min = std::min(min, *std::min_element(numbers.begin(), numbers.end()));
    max = std::max(max, *std::max_element(numbers.begin(), numbers.end()));
  }
  ChiSquare alone = Uniformity(all, 4096);
  EXPECT_TRUE(alone.Passes()) << alone.ToString();
  ChiSquare pairs = Independence(even, odd, 64);
  EXPECT_TRUE(pairs.Passes()) << pairs.ToString();
  // The ends of a million numbers lie about a millionth from 0 and 1 (off by 20: 2e-9 and less).
  EXPECT_LT(min, 20.0 / (8 * kTokens));
  EXPECT_GT(max, 1 - 20.0 / (8 * kTokens));
}

}  // namespace
}  // namespace tandem::random
