// What the test of the distribution would see: faults planted into the three services, each caught
// by the same judgement of the same texts; and each set-up without its fault, which must pass.
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/integration/exactness_cells.h"
#include "tests/integration/planted.h"

namespace tandem::testing {
namespace {

struct Control {
  std::string name;
  TextsOptions texts;
  DraftFault draft = DraftFault::kNone;
  JudgeFault judge = JudgeFault::kNone;
  bool block_at_first_failure = false;
  TablePair pair = {};
};

void PrintTo(const Control& control, std::ostream* out) { *out << control.name; }

Judgement RunWith(const Control& control) {
  const TablePair& pair = control.pair;
  TextsOptions texts = control.texts;
  if (texts.samples == 1) {  // several texts per request cost less
    texts.samples = 4;
    texts.requests /= 4;
  }
  ClusterOptions options = TableOptions(pair);
  options.instead_of_model = PlantedDrafter(pair, control.draft, texts);
  options.judge = PlantedJudge(pair, control.judge, texts);
  if (control.block_at_first_failure) options.decide = DecideBlockAtFirstFailure;
  return MeasureTable(pair, std::move(options), texts);
}

// Trials of other lengths go on all the time.
TextsOptions Auto(v1::Rule rule) {
  return {.rule = rule,
          .draft_tokens = std::nullopt,
          .length_policy = v1::LENGTH_POLICY_AUTO,
          .requests = 6000};
}

TextsOptions Block(int requests = 6000) {
  return {.rule = v1::RULE_BLOCK, .draft_tokens = 4, .requests = requests};
}

// The draft would like token 2, and the target may not write it.
TextsOptions Banned() { return {.sampling = {.banned = {2}}}; }

TextsOptions Penalised() {
  return {.sampling = {.frequency_penalty = 1.5},
          .draft_tokens = 4,
          .text_tokens = 6,
          .requests = 6000};
}

// The requests leave the minimum to the planted judge.
TextsOptions Minimum() {
  return {.sampling = {.min_tokens = 4, .stop_token_ids = {1}},
          .asked = sampling::SamplingParameters{.stop_token_ids = {1}},
          .draft_tokens = 4,
          .text_tokens = 6};
}

class RightTest : public ::testing::TestWithParam<Control> {};

TEST_P(RightTest, Passes) {
  const Judgement judgement = RunWith(GetParam());
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.Passes());
  EXPECT_TRUE(judgement.rest.Passes());
}

INSTANTIATE_TEST_SUITE_P(
    Hooks, RightTest,
    ::testing::Values(Control{"Speculative", {}}, Control{"Block", Block()},
                      Control{"AutoSpeculative", Auto(v1::RULE_SPECULATIVE)},
                      Control{"AutoBlock", Auto(v1::RULE_BLOCK)},
                      Control{"GuessesAreNoFault", {}, DraftFault::kGuessesRecovered},
                      Control{"Banned", Banned()}, Control{"Penalised", Penalised()},
                      Control{"Minimum", Minimum(), DraftFault::kNone, JudgeFault::kMinimumByHand}),
    [](const auto& info) { return info.param.name; });

// A cell whose blocks are sampled, with a fault that it must see.
Control CellWithFault(const char* name) {
  const ExactnessCell& cell = ExactnessCellNamed(name);
  return {absl::StrCat("SameUniformsIn", name),
          TextsOf(cell, UsualTexts(cell)),
          DraftFault::kNone,
          JudgeFault::kSameUniformsEachRound,
          false,
          cell.pair};
}

class FaultTest : public ::testing::TestWithParam<Control> {};

TEST_P(FaultTest, IsCaught) {
  const Judgement judgement = RunWith(GetParam());
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.ControlIsCaught() || judgement.rest.ControlIsCaught());
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    ::testing::Values(
        Control{"ResidualMissing", {}, DraftFault::kNone, JudgeFault::kResidualMissing},
        Control{
            "ResidualOnlyDropsToken", {}, DraftFault::kNone, JudgeFault::kResidualOnlyDropsToken},
        Control{"QBeforeTruncation", {}, DraftFault::kQBeforeTruncation},
        Control{"OneUniform", {}, DraftFault::kNone, JudgeFault::kOneUniform},
        Control{"BlockWithoutCommitted", Block(20'000), DraftFault::kNone,
                JudgeFault::kBlockWithoutCommitted},
        Control{"BlockAtFirstFailure", Block(), DraftFault::kNone, JudgeFault::kNone, true},
        Control{"BonusFromQ", {}, DraftFault::kNone, JudgeFault::kBonusFromQ},
        Control{"ReplacementsGuessed",
                {},
                DraftFault::kGuessesRecovered,
                JudgeFault::kRecoveredWithoutCommitted},
        Control{"DropsUnlikelyToken", {}, DraftFault::kDropsUnlikelyToken},
        Control{"DropsBannedToken", Banned(), DraftFault::kDropsBannedToken},
        Control{"CountsNotRolledBack", Penalised(), DraftFault::kNone,
                JudgeFault::kCountsNotRolledBack},
        Control{"MinimumNotRolledBack", Minimum(), DraftFault::kNone,
                JudgeFault::kMinimumNotRolledBack},
        CellWithFault("TopPWarmDraft"), CellWithFault("BiasBansColdDraft"),
        Control{"LongestMatch", {}, DraftFault::kLongestMatch}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing
