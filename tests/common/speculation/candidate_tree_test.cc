#include "common/speculation/candidate_tree.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem::speculation {
namespace {

TEST(CandidateTree, WithoutTokensItIsEmpty) {
  const CandidateTree none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_TRUE(none.is_chain());
  EXPECT_TRUE(none.has_valid_parents());
  EXPECT_TRUE(none.has_valid_q_count());
}

TEST(CandidateTree, AChainHasNothingForItsShape) {
  const CandidateTree chain{.id = base::BlockId{1}, .tokens = {5, 6, 7}};
  EXPECT_FALSE(chain.empty());
  EXPECT_EQ(chain.size(), 3u);
  EXPECT_TRUE(chain.is_chain());
  EXPECT_EQ(chain.parents.capacity(), 0u);
  EXPECT_EQ(chain.q.capacity(), 0u);
}

TEST(CandidateTree, ParentsSayWhatItIs) {
  struct Case {
    std::vector<uint32_t> parents;
    bool is_chain, valid;
  };
  const std::vector<Case> cases = {
      {{}, true, true},
      {{0, 1, 2}, true, true},
      {{0, 0, 1}, false, true},
      {{0, 0, 0}, false, true},
      {{0, 1, 0}, false, true},
      {{0, 1}, false, false},        // a token without a parent
      {{0, 1, 2, 3}, false, false},  // a parent without a token
      {{0, 2, 1}, false, false},     // its own parent
      {{1, 1, 2}, false, false},
      {{0, 1, 3}, false, false},  // after its child
      {{0, 1, 0xffff'ffff}, false, false},
  };
  for (const Case& test : cases) {
    const CandidateTree tree{.id = base::BlockId{1}, .tokens = {5, 6, 7}, .parents = test.parents};
    EXPECT_EQ(tree.is_chain(), test.is_chain) << ::testing::PrintToString(test.parents);
    EXPECT_EQ(tree.has_valid_parents(), test.valid) << ::testing::PrintToString(test.parents);
  }
}

TEST(CandidateTree, HasOneQATokenOrNone) {
  CandidateTree tree{.id = base::BlockId{1}, .tokens = {5, 6}};
  for (size_t count = 0; count < 4; ++count) {
    tree.q.resize(count);
    EXPECT_EQ(tree.has_valid_q_count(), count == 0 || count == 2) << count;
  }
}

TEST(CandidateTree, ATruncatedOneIsWellFormed) {
  const CandidateTree chain{.id = base::BlockId{1}, .tokens = {5, 6, 7}};
  CandidateTree tree = chain;
  tree.parents = {0, 0, 1};
  tree.q.resize(3);
  tree.q[1].ids = {6};
  for (size_t size = 0; size <= 3; ++size) {
    for (CandidateTree cut : {chain, tree}) {
      cut.Truncate(size);
      EXPECT_EQ(cut.id, chain.id);
      EXPECT_EQ(cut.tokens, std::vector<uint32_t>(chain.tokens.begin(),
                                                  chain.tokens.begin() + static_cast<int>(size)));
      EXPECT_TRUE(cut.has_valid_parents());
      EXPECT_TRUE(cut.has_valid_q_count());
      if (cut.q.size() > 1) {
        EXPECT_EQ(cut.q[1].ids, tree.q[1].ids);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::speculation
