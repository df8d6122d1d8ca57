// The distribution of whole texts through the three services is the target's own: for every exact
// rule, sampling option, drafter and length of the block (exactness_cells.h). The plain cells go
// over TCP: each rule, drafter and length once. So do all cells of scripts/test --full. The others
// use channels without sockets, which cost less.
//
// False alarms: tests/support/chi_square.h gives each of the tests here a probability of 1e-9 over
// the choice of seeds; the seeds are fixed.
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/integration/exactness_cells.h"

namespace tandem::testing {
namespace {

class ExactTest : public ::testing::TestWithParam<ExactnessCell> {};

TEST_P(ExactTest, FollowsTheTarget) {
  const ExactnessCell& cell = GetParam();
  const int usual = UsualTexts(cell);
  const int count = TextsOfACell(usual);
  const TextsOptions texts = TextsOf(cell, count);
  ClusterOptions cluster = TableOptions(cell.pair);
  cluster.without_sockets = count == usual && cell.family != CellFamily::kPlain;
  const Judgement judgement = MeasureTable(cell.pair, std::move(cluster), texts);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.rest.Passes());
  // The draft had its share in them.
  EXPECT_GT(judgement.accepted, judgement.texts / 10);
  EXPECT_GT(judgement.rejected_rounds, judgement.texts / 10);
  if (cell.sampling.min_tokens > 0) {
    EXPECT_GT(judgement.ended, judgement.texts / 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, ExactTest, ::testing::ValuesIn(ExactnessCells()),
                         [](const auto& info) { return std::string(info.param.name); });

// Drawn from a table, with its weights as q.
TEST(TableDrafterTest, FollowsTheTarget) {
  TextsOptions texts;
  texts.rule = v1::RULE_BLOCK;
  texts.drafter = "corpus-bigram";
  texts.proposal = v1::PROPOSAL_SAMPLED;
  texts.draft_tokens = 3;
  texts.text_tokens = 6;
  texts.requests = TextsOfACell(6'000);
  ClusterOptions cluster = TableOptions({});
  cluster.without_sockets = true;
  const Judgement judgement = MeasureTable({}, std::move(cluster), texts);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.rest.Passes());
  EXPECT_GT(judgement.accepted, judgement.texts / 10);
  EXPECT_GT(judgement.rejected_rounds, judgement.texts / 10);
}

TEST(WithoutADraftTest, FollowsTheTarget) {
  TextsOptions texts;
  texts.draft_tokens = 0;
  texts.text_tokens = 6;
  texts.requests = TextsOfACell(6'000);
  const Judgement judgement = MeasureTable({}, TableOptions({}), texts);
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.rest.Passes());
}

}  // namespace
}  // namespace tandem::testing
