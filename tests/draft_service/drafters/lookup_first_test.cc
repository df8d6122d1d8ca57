// Blocks are what the text has, where it has two tokens or more of its end before, and the model's
// to the bit elsewhere. (That the text follows the target: ngram_law_test.cc.)
#include "draft_service/drafters/lookup_first.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/draft_service/drafters/drafting.h"
#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service::lookup_first_test {
namespace {

using Tokens = std::vector<uint32_t>;

// What followed the last four, three or two tokens of the text the last time.
Tokens Search(const Tokens& text, uint32_t max) {
  for (size_t n = 4; n >= 2; --n) {
    for (size_t end = text.size(); end-- > n;) {
      if (std::equal(text.end() - static_cast<ptrdiff_t>(n), text.end(),
                     text.begin() + static_cast<ptrdiff_t>(end - n))) {
        const size_t last = std::min<size_t>(text.size(), end + max);
        return {text.begin() + static_cast<ptrdiff_t>(end),
                text.begin() + static_cast<ptrdiff_t>(last)};
      }
    }
  }
  return {};
}

TEST(LookupFirst, TheTextsTokensElseTheModels) {
  std::mt19937 random(11);
  int found = 0, computed = 0;
  for (const auto& [rule, temperature] :
       {std::pair{Rule::kGreedy, 0.0}, {Rule::kCoupled, 0.9}, {Rule::kSpeculative, 0.9}}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const DrafterSetup setup = AllOptions(seed, rule, temperature);
      TableModel model({.peakedness = 3}), same({.peakedness = 3});
      auto drafter = LookupFirstFactory(same, {}).make(setup, setup.proposal);
      ASSERT_TRUE(drafter.ok());
      Tokens text = RandomTokens(random, 2 + random() % 30);
      Accept(**drafter, 0, text);
      for (int round = 0; round < 12; ++round) {
        const auto max = 1 + static_cast<uint32_t>(random() % 6);
        const int64_t before = same.passes();
        const CandidateTree block = Propose(**drafter, max);
        const Tokens expected = Search(text, max);
        if (!expected.empty()) {
          ++found;
          ASSERT_EQ(block.tokens, expected);
          ASSERT_TRUE(block.q.empty());
          ASSERT_EQ(same.passes(), before);
        } else {
          ++computed;
          auto alone = Make(model, setup);
          Accept(*alone, 0, text);
          const CandidateTree models = Propose(*alone, max);
          ASSERT_EQ(block.tokens, models.tokens);
          ASSERT_EQ(block.q.size(), models.q.size());
          for (size_t i = 0; i < block.q.size(); ++i) {
            ASSERT_EQ(block.q[i].weights, models.q[i].weights);
          }
        }
        // Some of it stands and a token follows, or the text goes back.
        const size_t accepted = random() % (block.size() + 1);
        Tokens next(block.tokens.begin(), block.tokens.begin() + static_cast<ptrdiff_t>(accepted));
        next.push_back(static_cast<uint32_t>(random() % kVocabulary));
        if (random() % 5 == 0) text.resize(text.size() - random() % text.size());
        const auto keep = static_cast<uint32_t>(text.size());
        text.insert(text.end(), next.begin(), next.end());
        Accept(**drafter, keep, next);
      }
    }
  }
  EXPECT_GT(found, 60);
  EXPECT_GT(computed, 60);
}

TEST(LookupFirst, MakesChainsAndSamples) {
  TableModel model({});
  const DrafterFactory factory = LookupFirstFactory(model, {});
  EXPECT_EQ(factory.name, "lookup-first");
  EXPECT_TRUE(factory.samples);
  EXPECT_FALSE(factory.trees);
  EXPECT_FALSE(factory.prepares);
}

}  // namespace
}  // namespace tandem::draft_service::lookup_first_test
