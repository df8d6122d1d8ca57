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

TEST(CandidateTree, DepthAndEqualSiblings) {
  CandidateTree tree{.tokens = {5, 6, 5, 7, 7}, .parents = {0, 0, 1, 1, 2}};
  EXPECT_EQ(tree.depth(), 2u);
  EXPECT_EQ(tree.EqualSibling(), 5u) << "equal tokens elsewhere are no siblings";
  tree.tokens[1] = 5;
  EXPECT_EQ(tree.EqualSibling(), 1u);
  EXPECT_EQ(CandidateTree{}.depth(), 0u);
  EXPECT_EQ((CandidateTree{.tokens = {1, 1, 1}}).depth(), 3u);
  EXPECT_EQ((CandidateTree{.tokens = {1, 1, 1}}).EqualSibling(), 3u);
}

TEST(CandidateTree, ACutOneIsATreeOfTheSamePaths) {
  const CandidateTree tree{
      .id = base::BlockId{1}, .tokens = {5, 6, 7, 8, 9, 4}, .parents = {0, 1, 2, 0, 4, 1}};
  CandidateTree cut = tree;
  cut.Cut(6, 3);
  EXPECT_EQ(cut.tokens, tree.tokens);
  cut.Cut(6, 2);
  EXPECT_EQ(cut.tokens, (std::vector<uint32_t>{5, 6, 8, 9, 4}));
  EXPECT_EQ(cut.parents, (std::vector<uint32_t>{0, 1, 0, 3, 1}));
  cut.Cut(3, 2);
  EXPECT_EQ(cut.tokens, (std::vector<uint32_t>{5, 6, 8}));
  EXPECT_EQ(cut.parents, (std::vector<uint32_t>{0, 1, 0}));
  cut = tree;
  cut.CutToChain();
  EXPECT_EQ(cut.tokens, (std::vector<uint32_t>{5, 6, 7}));
  EXPECT_TRUE(cut.parents.empty());
  CandidateTree chain{.tokens = {1, 2, 3}};
  chain.Cut(2, 5);
  EXPECT_EQ(chain.tokens, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(chain.parents.empty());
}

}  // namespace
}  // namespace tandem::speculation
