#include "draft_service/drafters/successor_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/sampling/distribution.h"
#include "tests/draft_service/drafters/ngram_drafters.h"
#include "tests/support/chi_square.h"

namespace tandem::draft_service::successor_drafter_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::shared_ptr<const SuccessorTable> Table() {
  return std::make_shared<FixedTable>(
      std::map<uint32_t, std::vector<Successor>>{
          {1, {{2, 6}, {5, 3}, {3, 1}}}, {2, {{3, 1}}}, {5, {{1, 1}}}},
      FixedTable::Continuations{{{5, 0}, {7, 1}}});
}

DrafterFactory Factory() { return SuccessorFactory("table", Table()); }

speculation::SequenceSettings Settings(acceptance::Rule rule, uint64_t seed) {
  speculation::SequenceSettings settings;
  settings.rule = rule;
  settings.seed = seed;
  return settings;
}

CandidateTree BlockAfter(const speculation::SequenceSettings& settings, Proposal proposal,
                         const std::vector<uint32_t>& text, uint32_t max) {
  auto drafter = *Factory().make(settings, proposal);
  TANDEM_CHECK_OK(drafter->Accept(0, text));
  return *drafter->Propose(max);
}

TEST(SuccessorDrafter, TheLikeliestChain) {
  EXPECT_THAT(ProposeAfter(Factory(), {}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter(Factory(), {9}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter(Factory(), {9, 1}, 1), ElementsAre(2));
  EXPECT_THAT(ProposeAfter(Factory(), {9, 1}, 4), ElementsAre(2, 3)) << "nothing follows 3";
  // With a continuation, as far as there is room.
  EXPECT_THAT(ProposeAfter(Factory(), {5}, 2), ElementsAre(1, 7));
  EXPECT_THAT(ProposeAfter(Factory(), {5}, 8), ElementsAre(1, 7, 1, 2, 3));
}

TEST(SuccessorDrafter, RollsBack) {
  auto drafter = Make(Factory());
  ASSERT_TRUE(drafter->Accept(0, {5, 1, 2}).ok());
  EXPECT_THAT(drafter->Propose(1)->tokens, ElementsAre(3));
  ASSERT_TRUE(drafter->Accept(1, {}).ok());
  EXPECT_THAT(drafter->Propose(1)->tokens, ElementsAre(1));
  ASSERT_TRUE(drafter->Accept(0, {}).ok());
  EXPECT_THAT(drafter->Propose(1)->tokens, IsEmpty());
}

// Drawn from exactly the q that is sent, at the draft's temperature; what follows it is one-hot.
TEST(SuccessorDrafter, SampledSendsWhatItDrawsFrom) {
  std::vector<int64_t> counts(6);
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const CandidateTree block =
        BlockAfter(Settings(acceptance::Rule::kSpeculative, seed), Proposal::kSampled, {1}, 4);
    ASSERT_GE(block.size(), 1u);
    ASSERT_TRUE(block.has_valid_q_count());
    EXPECT_THAT(block.q[0].ids, ElementsAre(2, 5, 3));
    ASSERT_NEAR(block.q[0](2), 0.6, 1e-4);
    ASSERT_NEAR(block.q[0](5), 0.3, 1e-4);
    ++counts[block.tokens[0]];
    if (block.tokens[0] == 5) {
      ASSERT_THAT(block.tokens, ElementsAre(5, 1, 7, 1));
      EXPECT_THAT(block.q[1].ids, ElementsAre(1)) << "drawn, of one";
      EXPECT_THAT(block.q[2].ids, IsEmpty());
      EXPECT_THAT(block.q[3].ids, IsEmpty());
    }
  }
  const testing::ChiSquare fit =
      testing::GoodnessOfFit(std::vector<double>{0, 0, 0.6, 0.1, 0, 0.3}, counts);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();

  speculation::SequenceSettings warm = Settings(acceptance::Rule::kSpeculative, 1);
  warm.sampling.temperature = 2;
  const CandidateTree block = BlockAfter(warm, Proposal::kSampled, {1}, 1);
  EXPECT_NEAR(block.q[0](2) / block.q[0](3), std::sqrt(6), 1e-3);
}

TEST(SuccessorDrafter, GreedyIsTheLikeliest) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    speculation::SequenceSettings settings = Settings(acceptance::Rule::kSpeculative, seed);
    const CandidateTree block = BlockAfter(settings, Proposal::kGreedy, {1}, 4);
    EXPECT_THAT(block.tokens, ElementsAre(2, 3));
    EXPECT_THAT(block.q, IsEmpty());
    EXPECT_THAT(BlockAfter(settings, Proposal::kDefault, {1}, 4).q, Not(IsEmpty()));
    settings.sampling.temperature = 0;
    EXPECT_THAT(BlockAfter(settings, Proposal::kSampled, {1}, 4).tokens, ElementsAre(2, 3));
  }
}

// With the target's noise, where its own draw falls on the same token most often.
TEST(SuccessorDrafter, CoupledRunsTheTargetsRace) {
  const sampling::Distribution q{{2, 3, 5}, {0.6, 0.1, 0.3}};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const CandidateTree block =
        BlockAfter(Settings(acceptance::Rule::kCoupled, seed), Proposal::kSampled, {9, 1}, 1);
    EXPECT_THAT(block.tokens, ElementsAre(sampling::DrawRace(q, seed, 0, 2)));
    EXPECT_THAT(block.q, IsEmpty());
  }
}

// A temperature near 0 leaves weights that no double holds.
TEST(SuccessorDrafter, VeryColdIsTheLikeliest) {
  speculation::SequenceSettings cold = Settings(acceptance::Rule::kSpeculative, 1);
  cold.sampling.temperature = 1e-4;
  EXPECT_THAT(BlockAfter(cold, Proposal::kSampled, {1}, 2).tokens, ElementsAre(2, 3));
}

// ---- trees ----

CandidateTree TreeAfter(const speculation::SequenceSettings& settings, Proposal proposal,
                        const std::vector<uint32_t>& text, const BlockShape& shape) {
  auto drafter = *Factory().make(settings, proposal);
  TANDEM_CHECK_OK(drafter->Accept(0, text));
  auto tree = drafter->ProposeTree(shape);
  TANDEM_CHECK_OK(tree);
  TANDEM_CHECK(tree->has_valid_parents() && tree->EqualSibling() == tree->size());
  EXPECT_THAT(tree->q, IsEmpty());
  return *std::move(tree);
}

TEST(SuccessorDrafter, TreesTakeTheLikeliestPathsFirst) {
  const auto settings = Settings(acceptance::Rule::kGreedy, 1);
  // 2: 0.6, then 3: 0.6; 5: 0.3, then 1: 0.3, with a continuation 7 1 behind it; 3: 0.1.
  CandidateTree tree = TreeAfter(settings, Proposal::kDefault, {1}, {3, 16});
  EXPECT_THAT(tree.tokens, ElementsAre(2, 3, 5, 1, 7, 3, 2, 5, 3));
  EXPECT_THAT(tree.parents, ElementsAre(0, 1, 0, 3, 4, 0, 4, 4, 4));
  tree = TreeAfter(settings, Proposal::kDefault, {1}, {2, 3});
  EXPECT_THAT(tree.tokens, ElementsAre(2, 3, 5)) << "the best three";
  tree = TreeAfter(settings, Proposal::kDefault, {1}, {1, 16});
  EXPECT_THAT(tree.tokens, ElementsAre(2, 5, 3));
  EXPECT_THAT(TreeAfter(settings, Proposal::kDefault, {}, {3, 16}).tokens, IsEmpty());
  EXPECT_THAT(TreeAfter(settings, Proposal::kDefault, {9}, {3, 16}).tokens, IsEmpty());
}

// Under coupled siblings arrive in the order of the race with the target's noise of their position.
TEST(SuccessorDrafter, TreesShareTheTargetsNoise) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto settings = Settings(acceptance::Rule::kCoupled, seed);
    const CandidateTree tree = TreeAfter(settings, Proposal::kDefault, {9, 1}, {2, 16});
    const sampling::Distribution q{{2, 3, 5}, {0.6, 0.1, 0.3}};
    std::vector<uint32_t> ranks, children;
    for (const auto& ranked : sampling::RankRace(q, seed, 0, 2, 3)) ranks.push_back(ranked.token);
    for (size_t i = 0; i < tree.size(); ++i) {
      if (tree.parents[i] == 0) children.push_back(tree.tokens[i]);
    }
    EXPECT_EQ(children, ranks) << seed;
  }
}

}  // namespace
}  // namespace tandem::draft_service::successor_drafter_test
