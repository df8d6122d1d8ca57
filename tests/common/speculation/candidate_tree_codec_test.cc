#include "common/speculation/candidate_tree_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::speculation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CandidateTree Chain() {
  return {.id = base::BlockId{0x1234'5678'9abc'def0},
          .tokens = {5, 6, 0xffff'ffff},
          .q = {{{5, 1}, {65535, 3}}, {}, {{7}, {1}}}};
}

// Two children of the root, and one of the first.
CandidateTree Tree() {
  CandidateTree tree = Chain();
  tree.parents = {0, 0, 1};
  return tree;
}

void ExpectSame(const CandidateTree& a, const CandidateTree& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.parents, b.parents);
  ASSERT_EQ(a.q.size(), b.q.size());
  for (size_t i = 0; i < a.q.size(); ++i) {
    EXPECT_EQ(a.q[i].ids, b.q[i].ids) << i;
    EXPECT_EQ(a.q[i].weights, b.q[i].weights) << i;
  }
}

template <typename Message>
Message Sent(const CandidateTree& tree) {
  Message wire;
  ToWire(tree, wire);
  return wire;
}

// As the other side reads the bytes.
template <typename Message>
CandidateTree Received(const CandidateTree& tree) {
  Message wire;
  EXPECT_TRUE(wire.ParseFromString(Sent<Message>(tree).SerializeAsString()));
  return FromWire(wire);
}

TEST(CandidateTreeCodec, ArrivesAsItWasSent) {
  CandidateTree one_hot = Chain();
  one_hot.q.clear();
  for (const CandidateTree& tree : {Chain(), Tree(), one_hot, CandidateTree()}) {
    ExpectSame(Received<internal::v1::Block>(tree), tree);
    ExpectSame(Received<internal::v1::Step>(tree), tree);
  }
}

TEST(CandidateTreeCodec, TheFieldsOfTheWire) {
  const internal::v1::Block block = Sent<internal::v1::Block>(Tree());
  EXPECT_EQ(block.block_id().value(), base::Number(Tree().id));
  EXPECT_THAT(block.tokens(), ElementsAre(5, 6, 0xffff'ffff));
  EXPECT_THAT(block.parents(), ElementsAre(0, 0, 1));
  ASSERT_EQ(block.q_size(), 3);
  EXPECT_THAT(block.q(0).ids(), ElementsAre(5, 1));
  EXPECT_THAT(block.q(0).weights(), ElementsAre(65535, 3));
  const internal::v1::Step step = Sent<internal::v1::Step>(Tree());
  EXPECT_EQ(step.block_id().value(), base::Number(Tree().id));
  EXPECT_THAT(step.candidates(), ElementsAre(5, 6, 0xffff'ffff));
  EXPECT_THAT(step.parents(), ElementsAre(0, 0, 1));
  EXPECT_EQ(step.q_size(), 3);
}

TEST(CandidateTreeCodec, AChainHasNoParentsOnTheWire) {
  CandidateTree spelled_out = Chain();
  spelled_out.parents = {0, 1, 2};
  for (const CandidateTree& chain : {Chain(), spelled_out}) {
    EXPECT_EQ(Sent<internal::v1::Block>(chain).parents_size(), 0);
    EXPECT_EQ(Sent<internal::v1::Step>(chain).parents_size(), 0);
  }
  internal::v1::Block block = Sent<internal::v1::Block>(Chain());
  for (uint32_t parent : {0, 1, 2}) block.add_parents(parent);
  const CandidateTree read = FromWire(block);
  EXPECT_EQ(read.parents.capacity(), 0u);
  ExpectSame(read, Chain());
}

// A round without a draft looks as it did before blocks had names.
TEST(CandidateTreeCodec, NoTokensAreNothingInAStep) {
  EXPECT_EQ(Sent<internal::v1::Step>({}).ByteSizeLong(), 0u);
  EXPECT_EQ(Sent<internal::v1::Step>({.id = base::BlockId{4}}).ByteSizeLong(), 0u);
  EXPECT_EQ(Sent<internal::v1::Block>({.id = base::BlockId{4}}).block_id().value(), 4u);
}

TEST(CandidateTreeCodec, WellFormedTreesPassTheCheck) {
  CandidateTree one_hot = Tree();
  one_hot.q.clear();
  for (const CandidateTree& tree : {Chain(), one_hot, CandidateTree()}) {
    EXPECT_FALSE(CheckCandidateTree(tree).has_value());
  }
}

// What is malformed arrives as it was sent, so that the receiver can refuse it by name.
TEST(CandidateTreeCodec, MalformedTreesAreRefusedByName) {
  struct Case {
    std::vector<uint32_t> parents;
    size_t q;
    std::string field, says;
  };
  const std::vector<Case> cases = {
      {{0, 1}, 3, "parents", "3 draft tokens"},
      {{0, 1, 2, 3}, 3, "parents", "3 draft tokens"},
      {{0, 2, 1}, 3, "parents[1]", "form a tree"},
      {{1, 1, 2}, 3, "parents[0]", "form a tree"},
      {{0, 1, 3}, 2, "parents[2]", "form a tree"},
      {{0, 0, 1}, 3, "q", "a tree has none"},
      {{}, 2, "q", "2 distributions for 3 draft tokens"},
      {{0, 0, 1}, 4, "q", "4 distributions for 3 draft tokens"},
  };
  for (const Case& test : cases) {
    CandidateTree tree = Chain();
    tree.parents = test.parents;
    tree.q.resize(test.q);
    ExpectSame(Received<internal::v1::Block>(tree), tree);
    const auto refusal = CheckCandidateTree(Received<internal::v1::Step>(tree));
    ASSERT_TRUE(refusal.has_value()) << test.says;
    EXPECT_EQ(refusal->status, internal::v1::STATUS_INVALID);
    EXPECT_EQ(refusal->problem.field(), test.field);
    EXPECT_THAT(refusal->problem.message(), HasSubstr(test.says));
  }
}

}  // namespace
}  // namespace tandem::speculation
