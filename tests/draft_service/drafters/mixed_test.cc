#include "draft_service/drafters/mixed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service::mixed_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

DrafterFactory Factory() {
  return MixedFactory({}, std::make_shared<FixedTable>(std::map<uint32_t, std::vector<Successor>>{
                              {1, {{8, 2}, {2, 1}}}, {2, {{6, 1}}}, {8, {{9, 1}}}}));
}

TEST(Mixed, TheTextFirstThenTheTable) {
  EXPECT_THAT(ProposeAfter(Factory(), {}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter(Factory(), {7}, 4), IsEmpty()) << "neither knows it";
  EXPECT_THAT(ProposeAfter(Factory(), {1}, 4), ElementsAre(8, 9)) << "the table alone";
  EXPECT_THAT(ProposeAfter(Factory(), {1, 3, 7, 1}, 2), ElementsAre(3, 7)) << "the text alone";
  EXPECT_THAT(ProposeAfter(Factory(), {1, 3, 1}, 4), ElementsAre(3, 1, 8, 9))
      << "the text, and the table after it";
}

TEST(Mixed, RollsBack) {
  auto drafter = Make(Factory());
  ASSERT_TRUE(drafter->Accept(0, {2, 4, 2}).ok());
  EXPECT_THAT(drafter->Propose(2)->tokens, ElementsAre(4, 2));
  ASSERT_TRUE(drafter->Accept(1, {}).ok());
  EXPECT_THAT(drafter->Propose(2)->tokens, ElementsAre(6));
}

// What the text says is one-hot, and what the table says has its q.
TEST(Mixed, DrawsFromTheTableAlone) {
  speculation::SequenceSettings settings;
  settings.rule = acceptance::Rule::kSpeculative;
  auto drafter = *Factory().make(settings, Proposal::kDefault);
  ASSERT_TRUE(drafter->Accept(0, {1, 3, 1}).ok());
  const CandidateTree block = *drafter->Propose(3);
  ASSERT_EQ(block.size(), 3u);
  ASSERT_EQ(block.q.size(), 3u);
  EXPECT_THAT(block.q[0].ids, IsEmpty());
  EXPECT_THAT(block.q[1].ids, IsEmpty());
  EXPECT_THAT(block.q[2].ids, ElementsAre(8, 2));
  EXPECT_THAT(drafter->Propose(2)->q, IsEmpty());
}

// What the text has had comes before what the table says; a token of both is one node, and either
// goes on where the other does not.
TEST(Mixed, TreesOfTheTextAndOfTheTable) {
  const auto tree_after = [](const std::vector<uint32_t>& text, const BlockShape& shape) {
    auto drafter = Make(Factory());
    TANDEM_CHECK_OK(drafter->Accept(0, text));
    const CandidateTree tree = *drafter->ProposeTree(shape);
    EXPECT_TRUE(tree.has_valid_parents());
    EXPECT_EQ(tree.EqualSibling(), tree.size());
    EXPECT_THAT(tree.q, IsEmpty());
    return tree;
  };
  EXPECT_THAT(tree_after({}, {4, 9}).tokens, IsEmpty());
  EXPECT_THAT(tree_after({7}, {4, 9}).tokens, IsEmpty());
  // After 1 the text had 3, once: 1/2. The other half has the table: 8: 1/3, 2: 1/6, and behind
  // them 9 and 6.
  CandidateTree tree = tree_after({1, 3, 7, 1}, {2, 9});
  EXPECT_THAT(tree.tokens, ElementsAre(3, 8, 9, 7, 2, 6));
  EXPECT_THAT(tree.parents, ElementsAre(0, 0, 2, 1, 0, 5));
  EXPECT_THAT(tree_after({1, 3, 7, 1}, {2, 2}).tokens, ElementsAre(3, 8));
  // Both know 8: 1/2 + 1/3. Behind it the text had 5, and the table has 9.
  tree = tree_after({1, 8, 5, 1}, {2, 9});
  EXPECT_THAT(tree.tokens, ElementsAre(8, 5, 9, 2, 6));
  EXPECT_THAT(tree.parents, ElementsAre(0, 1, 1, 0, 4));
}

}  // namespace
}  // namespace tandem::draft_service::mixed_test
