#include "draft_service/ngrams/ngram_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

namespace tandem::draft_service {
namespace {

using ::testing::ElementsAre;

std::map<std::pair<uint32_t, uint32_t>, uint64_t> PairsOf(const NgramCounter& counter) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> pairs;
  for (const auto& one : counter.Bigrams()) pairs[{one.first, one.second}] = one.count;
  return pairs;
}

TEST(NgramCounter, CountsWhateverThePieces) {
  std::mt19937 random(5);
  std::vector<uint32_t> text(2000);
  for (uint32_t& token : text) token = static_cast<uint32_t>(random() % 7);
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> expected;
  for (size_t i = 1; i < text.size(); ++i) ++expected[{text[i - 1], text[i]}];

  NgramCounter counter(7, 1000);
  for (size_t begin = 0; begin < text.size();) {
    const size_t size = std::min<size_t>(random() % 50, text.size() - begin);
    counter.Add(absl::MakeConstSpan(text).subspan(begin, size));
    begin += size;
  }
  EXPECT_EQ(counter.tokens(), text.size());
  EXPECT_EQ(PairsOf(counter), expected);
  EXPECT_EQ(counter.dropped(), 0u);
}

TEST(NgramCounter, UnknownTokensPartTheText) {
  NgramCounter counter(3, 10);
  counter.Add({0, 1, 7, 2, 1});
  EXPECT_EQ(counter.tokens(), 4u);
  EXPECT_THAT(counter.unigrams(), ElementsAre(1, 2, 1));
  EXPECT_THAT(PairsOf(counter),
              ElementsAre(std::pair(std::pair(0u, 1u), 1u), std::pair(std::pair(2u, 1u), 1u)));
}

// What is common stays, and there are never more pairs than said.
TEST(NgramCounter, TheRarestMakeRoom) {
  NgramCounter counter(100'000, 64);
  for (uint32_t i = 0; i < 20'000; ++i) {
    counter.Add({1, 2, 10 + i});
    ASSERT_LE(counter.Bigrams().size(), 64u);
  }
  EXPECT_EQ((PairsOf(counter)[{1, 2}]), 20'000u);
  EXPECT_GT(counter.dropped(), 30'000u);
  NgramCounter one(4, 1);
  one.Add({0, 1, 2, 3, 0, 1});
  EXPECT_EQ(one.Bigrams().size(), 1u);
}

}  // namespace
}  // namespace tandem::draft_service
