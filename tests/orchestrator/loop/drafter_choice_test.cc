// A loop that chooses among drafters: a switch opens a sequence of the other drafter with the text
// so far, the record says who drafted, and the text is the target's. And the same test sees a
// choice that depends on what was drawn.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/generate/last_message.h"
#include "tests/orchestrator/harness/joint_distribution.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/chi_square.h"

namespace tandem::orchestrator::drafter_choice_test {
namespace {

using testing::ChiSquare;

GenerationRequest ChoosingRequest(double temperature = 0) {
  GenerationRequest request = SmallRequest(4, temperature);
  request.drafters = {"a", "b"};
  return request;
}

// What each drafter costs is the test's: one of them is slow for a while, then the other.
void ChangeCosts(LoopHarness& harness, int& round, int every) {
  harness.draft.on_advance = [&harness, &round, every](const DraftAdvance&, DraftReplyBlock&) {
    const bool slow = (harness.draft.opened().drafter == "a") == ((++round / every) % 2 == 0);
    harness.clock.Advance(absl::Milliseconds(slow ? 20 : 1));
    return FakeDraft::Do::kAnswer;
  };
}

TEST(DrafterChoice, ASwitchOpensTheOtherDrafterWithTheTextSoFar) {
  GenerationRequest request = ChoosingRequest();
  request.max_tokens = 400;
  LoopHarness harness(request);
  int round = 0;
  ChangeCosts(harness, round, 60);
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GT(harness.draft.opens, 1);
  EXPECT_EQ(harness.ending->counts.draft_reconnections, 0u) << "a switch is none";
  const v1::Last last = MakeLast(request, {*harness.ending});
  ASSERT_EQ(last.speculation().drafters_size(), 2);
  uint32_t rounds = 0, accepted = 0, drafted = 0, tokens = 0;
  for (const v1::DrafterRecord& one : last.speculation().drafters()) {
    EXPECT_GT(one.drafted_rounds(), 0u) << one.drafter();
    uint32_t reasons = 0;
    for (const v1::CausedRounds& caused : one.reasons()) reasons += caused.rounds();
    EXPECT_EQ(reasons, one.rounds());
    rounds += one.rounds();
    accepted += one.accepted_tokens();
    drafted += one.draft_tokens();
    tokens += one.tokens();
  }
  EXPECT_EQ(rounds + 1, last.speculation().rounds()) << "the first round has no drafter";
  EXPECT_EQ(accepted, last.speculation().accepted_tokens());
  EXPECT_EQ(drafted, last.speculation().draft_tokens());
  EXPECT_EQ(tokens + 1, last.usage().completion_tokens());
}

TEST(DrafterChoice, ADrafterThatNoDraftTakesIsLeft) {
  GenerationRequest request = ChoosingRequest();
  request.max_tokens = 60;
  LoopHarness harness(request);
  harness.draft.refuses = true;
  harness.Start();
  while (harness.draft.opens < 1) harness.DeliverOne();
  harness.draft.refuses = false;
  harness.Run();
  ASSERT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GT(harness.ending->counts.draft_tokens, 0u);
  EXPECT_EQ(harness.draft.opened().drafter, "b");
}

TEST(DrafterChoice, ARequestWithOneDrafterHasNoRecordOfThem) {
  LoopHarness harness(SmallRequest());
  harness.Start();
  harness.Run();
  EXPECT_TRUE(harness.ending->counts.drafters.empty());
}

// ---- exactness ----

constexpr uint32_t kVocabulary = 3;
constexpr uint32_t kTokens = 8;
constexpr uint32_t kJoint = 5;
constexpr int kTexts = 1500;

struct Outcome {
  ChiSquare joint;
  int opens = 0;
};

// Switching is forced: what the drafters cost changes every few rounds. `looks`: a choice that
// looks at a value. The drafter that is used gives its block away if it begins with token 0, as one
// who switches because of what was drawn.
Outcome Measure(acceptance::Rule rule, int texts, bool looks) {
  Outcome outcome;
  // Who drafts changes in every third round, by what was accepted.
  CommonDrafters drafters(/*always=*/true);
  std::mt19937_64 random(7);
  JointCounts counts(kVocabulary, kJoint);
  int round = 0;
  for (int i = 0; i < texts; ++i) {
    GenerationRequest request = ChoosingRequest(1.0);
    request.rule = rule;
    request.seed = 1'000 + static_cast<uint64_t>(i);
    request.max_tokens = kTokens;
    request.draft_tokens = 3;
    HarnessOptions options;
    options.vocabulary_size = kVocabulary;
    options.draft_noise = 1;
    options.drafters = &drafters;
    LoopHarness harness(request, options);
    harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
      const bool slow = (harness.draft.opened().drafter == "a") == ((++round / 3) % 2 == 0);
      const double jitter = std::uniform_real_distribution<double>(0.5, 1.5)(random);
      harness.clock.Advance(jitter * absl::Milliseconds(slow ? 20 : 0.1));
      if (looks && !reply.block.tokens.empty() && reply.block.tokens[0] == 0) {
        reply.block = {};
      }
      return FakeDraft::Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    EXPECT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
    outcome.opens += harness.draft.opens;
    counts.Add(harness.target_model, request.prompt, harness.output());
  }
  outcome.joint = counts.Fit();
  return outcome;
}

class ChoiceTest : public ::testing::TestWithParam<acceptance::Rule> {};

TEST_P(ChoiceTest, FollowsTheTargetsDistribution) {
  const Outcome outcome = Measure(GetParam(), kTexts, /*looks=*/false);
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_GT(outcome.opens, 5 * kTexts / 4) << "texts switch";
}

INSTANTIATE_TEST_SUITE_P(Rules, ChoiceTest,
                         ::testing::Values(acceptance::Rule::kSpeculative, acceptance::Rule::kBlock,
                                           acceptance::Rule::kCoupled),
                         [](const auto& info) { return acceptance::Name(info.param); });

TEST(ChoiceControl, AChoiceThatLooksAtWhatWasDrawnIsSeen) {
  const Outcome outcome = Measure(acceptance::Rule::kSpeculative, kTexts, /*looks=*/true);
  EXPECT_TRUE(outcome.joint.ControlIsCaught()) << outcome.joint.ToString();
}

}  // namespace
}  // namespace tandem::orchestrator::drafter_choice_test
