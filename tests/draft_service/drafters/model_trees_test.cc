// A draft model's trees: siblings are the next ranks of what the target may draw, each row is
// computed once and sees its path alone, and a tree depends on the committed tokens alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "common/acceptance/tree.h"
#include "draft_service/drafters/tree_growth.h"
#include "tests/draft_service/drafters/drafting.h"

namespace tandem::draft_service::model_trees_test {
namespace {

using ::testing::ElementsAre;

using Tokens = std::vector<uint32_t>;

CandidateTree ProposeTree(Drafter& drafter, const BlockShape& shape) {
  auto tree = drafter.ProposeTree(shape);
  TANDEM_CHECK_OK(tree);
  TANDEM_CHECK(tree->has_valid_parents() && tree->EqualSibling() == tree->size());
  return *std::move(tree);
}

Tokens PathOf(const CandidateTree& tree, uint32_t node) {
  Tokens path;
  for (; node > 0; node = tree.parents[node - 1]) path.push_back(tree.tokens[node - 1]);
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<DrafterSetup> Setups(uint64_t seed) {
  DrafterSetup most_likely = AllOptions(seed, Rule::kCoupled);
  most_likely.proposal = Proposal::kGreedy;
  return {AllOptions(seed, Rule::kCoupled), AllOptions(seed, Rule::kGreedy, 0), most_likely};
}

// What a node's children are drawn from, counting anew.
std::vector<sampling::RankedToken> Ranks(const TableModel& model, const DrafterSetup& setup,
                                         const Tokens& text, size_t count) {
  sampling::SamplingParameters parameters = setup.sampling;
  const bool race = setup.rule == Rule::kCoupled && setup.proposal != Proposal::kGreedy;
  if (!race) parameters.temperature = 1;
  TokenHistory history(setup.prompt_tokens);
  history.Append(text);
  const auto q =
      sampling::MakeDistribution(model.LogitsAfter(text), kVocabulary, parameters, history);
  return race ? sampling::RankRace(q, setup.seed, setup.sample_index,
                                   static_cast<uint32_t>(text.size()), count)
              : sampling::RankLikeliest(q, count);
}

TEST(ModelTrees, SiblingsAreTheNextRanksAfterTheirOwnPath) {
  std::mt19937 random(4);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const DrafterSetup& setup : Setups(seed)) {
      TableModel model({});
      auto drafter = Make(model, setup);
      const Tokens text = RandomTokens(random, 5);
      Accept(*drafter, 0, text);
      const BlockShape shape{1 + static_cast<uint32_t>(random() % 5),
                             1 + static_cast<uint32_t>(random() % 20)};
      const CandidateTree tree = ProposeTree(*drafter, shape);
      EXPECT_LE(tree.size(), shape.max_nodes);
      EXPECT_LE(tree.depth(), shape.max_draft_tokens);
      EXPECT_GE(tree.size(), 1u);
      EXPECT_TRUE(tree.q.empty());
      for (uint32_t node = 0; node <= tree.size(); ++node) {
        Tokens children;
        for (uint32_t child = 0; child < tree.size(); ++child) {
          if (tree.parents[child] == node) children.push_back(tree.tokens[child]);
        }
        if (children.empty()) continue;
        Tokens before = text;
        const Tokens path = PathOf(tree, node);
        before.insert(before.end(), path.begin(), path.end());
        Tokens ranks;
        for (const auto& ranked : Ranks(model, setup, before, children.size())) {
          ranks.push_back(ranked.token);
        }
        EXPECT_EQ(children, ranks) << "node " << node;
      }
    }
  }
}

// Any path of a tree stands, or none; chains come between; now and then the text goes back.
TEST(ModelTrees, ATreeDependsOnTheCommittedTokensAlone) {
  std::mt19937 random(18);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    for (const DrafterSetup& setup : Setups(seed)) {
      TableModel model({});
      auto drafter = Make(model, setup);
      Tokens committed = RandomTokens(random, 6);
      Accept(*drafter, 0, committed);
      for (int round = 0; round < 12 && committed.size() < 120; ++round) {
        const BlockShape shape{1 + static_cast<uint32_t>(random() % 5),
                               2 + static_cast<uint32_t>(random() % 12)};
        const bool chain = random() % 4 == 0;
        auto fresh = Make(model, setup);
        Accept(*fresh, 0, committed);
        const CandidateTree tree =
            chain ? Propose(*drafter, shape.max_draft_tokens) : ProposeTree(*drafter, shape);
        const CandidateTree expected =
            chain ? Propose(*fresh, shape.max_draft_tokens) : ProposeTree(*fresh, shape);
        ASSERT_EQ(tree.tokens, expected.tokens) << round;
        ASSERT_EQ(tree.parents, expected.parents) << round;
        if (random() % 6 == 0) continue;  // the block came to nothing: it is asked for again
        const auto end = static_cast<uint32_t>(random() % (tree.size() + 1));
        Tokens next =
            chain ? Tokens(tree.tokens.begin(), tree.tokens.begin() + end) : PathOf(tree, end);
        next.push_back(static_cast<uint32_t>(random() % kVocabulary));
        size_t keep = committed.size();
        if (random() % 5 == 0) keep -= random() % committed.size();
        committed.resize(keep);
        committed.insert(committed.end(), next.begin(), next.end());
        Accept(*drafter, keep, next);
      }
    }
  }
}

// Each node that is looked behind is one row, and what stands is not computed again.
TEST(ModelTrees, NothingIsComputedTwice) {
  const DrafterSetup setup = Setups(3)[0];
  TableModel model({});
  auto drafter = Make(model, setup);
  const Tokens text = {1, 2, 3, 4};
  Accept(*drafter, 0, text);
  const CandidateTree tree = ProposeTree(*drafter, {4, 12});
  EXPECT_LE(model.rows(), 4 + 3 * 3) << "the text, and three passes of three";
  EXPECT_LE(model.passes(), 4);
  // The longest path of the nodes that have children.
  uint32_t end = 0;
  for (const uint32_t parent : tree.parents) {
    if (PathOf(tree, parent).size() > PathOf(tree, end).size()) end = parent;
  }
  ASSERT_GT(end, 0u);
  Tokens next = PathOf(tree, end);
  next.push_back(0);
  Accept(*drafter, text.size(), next);
  const int64_t before = model.rows();
  Propose(*drafter, 1);
  EXPECT_EQ(model.rows() - before, 1);
}

TEST(ModelTrees, HowPassesAreCutChangesNothing) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (const DrafterSetup& setup : Setups(seed)) {
      TableModel model({});
      auto whole = Make(model, setup);
      auto cut = Make(model, setup);
      const Tokens text = {1, 2, 3, 4, 5};
      Accept(*whole, 0, text);
      Accept(*cut, 0, text);
      ForwardDrafter& drafter = *cut->forward_drafter();
      drafter.BeginBlock({4, 14});
      while (drafter.wanted().total() > 0) {
        const model::ForwardPart part = drafter.NextPart(1 + static_cast<int>(seed % 3));
        const auto logits = model.Forward({&part, 1});
        TANDEM_CHECK_OK(logits);
        TANDEM_CHECK_OK(
            drafter.ReadLogits({logits->data, static_cast<size_t>(logits->rows) * kVocabulary}));
      }
      const CandidateTree tree = drafter.EndBlock();
      const CandidateTree expected = ProposeTree(*whole, {4, 14});
      EXPECT_EQ(tree.tokens, expected.tokens);
      EXPECT_EQ(tree.parents, expected.parents);
    }
  }
}

// The draft and the target are one model, so the target's own token is the first rank everywhere.
TEST(ModelTrees, ShareTheTargetsNoise) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    DrafterSetup setup = AllOptions(seed, Rule::kCoupled);
    TableModel model({});
    auto drafter = Make(model, setup);
    const Tokens text = {1, 2, 3};
    Accept(*drafter, 0, text);
    const CandidateTree tree = ProposeTree(*drafter, {3, 30});
    uint32_t node = 0;
    size_t depth = 0;
    for (const uint32_t own : TargetsOwn(model, setup, text, 3)) {
      const auto child = std::find(tree.parents.begin(), tree.parents.end(), node);
      if (child == tree.parents.end()) break;
      const auto i = static_cast<size_t>(child - tree.parents.begin());
      ASSERT_EQ(tree.tokens[i], own) << seed << " " << depth;
      node = static_cast<uint32_t>(i) + 1;
      ++depth;
    }
    EXPECT_GE(depth, 2u);
  }
}

// ---- which nodes ----

TEST(TreeGrowth, TakesTheBestNodesFromTheRootOn) {
  TreeGrowth growth(4, 3);
  growth.AddChildren(0, {{5, -0.5}, {6, -1.5}, {7, -3}});
  EXPECT_THAT(growth.Next(2), ElementsAre(1, 2));
  growth.AddChildren(1, {{8, -0.4}, {9, -2.6}});
  growth.AddChildren(2, {{4, -0.1}});
  // -0.5, -0.9, -1.5, -1.6; the third child of the root and the second of node 1 are behind these.
  const CandidateTree tree = growth.Best();
  EXPECT_THAT(tree.tokens, ElementsAre(5, 8, 6, 4));
  EXPECT_THAT(tree.parents, ElementsAre(0, 1, 0, 3));
  EXPECT_EQ(growth.Child(2, 4), 6u);
  EXPECT_EQ(growth.Child(2, 5), 0u);
  EXPECT_THAT(growth.Path(6), ElementsAre(6, 4));
  EXPECT_THAT(growth.Next(9), ElementsAre(4, 6));
  growth.AddChildren(4, {{1, -0.1}});
  EXPECT_THAT(growth.Next(9), ::testing::IsEmpty()) << "no path may be longer";
}

}  // namespace
}  // namespace tandem::draft_service::model_trees_test
