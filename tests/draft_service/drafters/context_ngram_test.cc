#include "draft_service/drafters/context_ngram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<uint32_t> ProposeAfter(const std::vector<uint32_t>& text, uint32_t max, int query = 1) {
  return draft_service::ProposeAfter(ContextNgramFactory({.query = query}), text, max);
}

TEST(ContextNgram, Examples) {
  EXPECT_THAT(ProposeAfter({}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1, 2, 3}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1, 2, 1}, 4), ElementsAre(2, 1));
  // What followed most often wins over what followed later,
  EXPECT_THAT(ProposeAfter({5, 1, 5, 1, 5, 2, 5}, 1), ElementsAre(1));
  // and of equals the later one.
  EXPECT_THAT(ProposeAfter({5, 2, 5, 1, 5}, 1), ElementsAre(1));
  // Further on, those count that agree so far: after 5 1 there is 8, though after 5 _ 7 is
  // commoner.
  EXPECT_THAT(ProposeAfter({5, 1, 8, 5, 1, 8, 5, 2, 7, 5, 3, 7, 5, 4, 7, 5}, 2), ElementsAre(1, 8));
  // A longer query.
  EXPECT_THAT(ProposeAfter({1, 2, 3, 9, 3, 4, 3, 4, 2, 3}, 1), ElementsAre(4));
  EXPECT_THAT(ProposeAfter({1, 2, 3, 9, 3, 4, 3, 4, 2, 3}, 1, 2), ElementsAre(9));
  EXPECT_THAT(ProposeAfter({1, 3, 4, 2, 3}, 4, 2), IsEmpty());
  // Draft tokens that overlap the end.
  EXPECT_THAT(ProposeAfter({9, 9, 9, 9}, 4), ElementsAre(9, 9, 9));
}

// What the drafter stands for, without an index.
std::vector<uint32_t> Search(const std::vector<uint32_t>& text, size_t query, uint32_t max) {
  std::vector<uint32_t> block;
  if (text.size() <= query) return block;
  std::vector<uint32_t> pattern(text.end() - static_cast<ptrdiff_t>(query), text.end());
  while (block.size() < max) {
    struct Follower {
      int count = 0;
      size_t last = 0;
    };
    std::map<uint32_t, Follower> followers;
    // The query and what was proposed after it, wherever it began before the text's end.
    for (size_t begin = 0; begin + query < text.size(); ++begin) {
      const size_t end = begin + pattern.size();
      if (end >= text.size()) break;
      if (!std::equal(pattern.begin(), pattern.end(),
                      text.begin() + static_cast<ptrdiff_t>(begin))) {
        continue;
      }
      Follower& follower = followers[text[end]];
      ++follower.count;
      follower.last = end;
    }
    if (followers.empty()) break;
    auto best = followers.begin();
    for (auto it = followers.begin(); it != followers.end(); ++it) {
      const bool better = it->second.count != best->second.count
                              ? it->second.count > best->second.count
                              : it->second.last > best->second.last;
      if (better) best = it;
    }
    block.push_back(best->first);
    pattern.push_back(best->first);
  }
  return block;
}

TEST(ContextNgram, IndexEqualsSearchThroughAppendsAndRollBacks) {
  std::mt19937 random(29);
  for (int trial = 0; trial < 60 && !::testing::Test::HasFailure(); ++trial) {
    const int query = 1 + trial % 3;
    ExpectItsIndexEquals(
        [query](const std::vector<uint32_t>& text, uint32_t max) {
          return Search(text, static_cast<size_t>(query), max);
        },
        ContextNgramFactory({.query = query}), random);
  }
}

TEST(ContextNgram, OfVeryManyOccurrencesTheLatestCount) {
  constexpr size_t kMax = ContextNgramOptions::kMaxOccurrences;
  // After 7 there was 1 more often than 2, but not among the latest.
  std::vector<uint32_t> text;
  for (size_t i = 0; i < 2 * kMax; ++i) text.insert(text.end(), {7, 1});
  for (size_t i = 0; i < kMax / 2 + 1; ++i) text.insert(text.end(), {7, 2});
  text.push_back(7);
  EXPECT_THAT(ProposeAfter(text, 1), ElementsAre(2));
  EXPECT_THAT(ProposeAfter(std::vector<uint32_t>(8192, 3), 16),
              ::testing::AllOf(SizeIs(16), Each(3u)));
}

// Drafters of one factory share their counters, one after the other.
TEST(ContextNgram, SequencesDoNotMix) {
  const DrafterFactory factory = ContextNgramFactory();
  auto one = *factory.make({}, Proposal::kDefault);
  auto other = *factory.make({}, Proposal::kGreedy);
  ASSERT_TRUE(one->Accept(0, {1, 2, 1}).ok());
  ASSERT_TRUE(other->Accept(0, {1, 3, 1}).ok());
  EXPECT_THAT(one->Propose(1)->tokens, ElementsAre(2));
  EXPECT_THAT(other->Propose(1)->tokens, ElementsAre(3));
  EXPECT_THAT(one->Propose(2)->tokens, ElementsAre(2, 1));
}

}  // namespace
}  // namespace tandem::draft_service
