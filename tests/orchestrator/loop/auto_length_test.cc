// The policy "auto" in a loop: what it learned decides whether a draft is asked at all, and the
// record says so.
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/length/auto.h"
#include "orchestrator/generate/last_message.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator::auto_length_test {
namespace {

GenerationRequest AutoRequest() {
  GenerationRequest request = SmallRequest(std::nullopt);
  request.length_mode = LengthMode::kAuto;
  return request;
}

// Nothing is accepted, and a draft token takes twice a pass.
void TeachThatNothingIsAccepted(CommonLength& lengths, const GenerationRequest& request) {
  lengths.Began();
  AutoLength policy(lengths, lengths.Group(request.drafter, request.rule));
  const auto unknown = [](uint32_t) { return absl::ZeroDuration(); };
  for (int i = 0; i < 3200; ++i) {
    RoundRecord round;
    round.choice = policy.Next({unknown});
    round.asked_tokens = round.draft_tokens = round.choice->tokens;
    if (round.asked_tokens == 0) round.cause = PlainCause::kPolicyZero;
    round.stages.draft = round.draft_tokens * absl::Milliseconds(2);
    round.stages.device = absl::Milliseconds(1);
    round.decided = round.began + round.stages.draft + round.stages.device;
    round.pass_rows = round.draft_tokens + 1;
    round.pass_sequences = 1;
    policy.Observe(round);
  }
  lengths.Ended();
}

TEST(AutoLengthInALoop, WhereADraftDoesNotPayItIsNotOpened) {
  CommonLength lengths;
  const GenerationRequest request = AutoRequest();
  TeachThatNothingIsAccepted(lengths, request);
  HarnessOptions options;
  options.lengths = &lengths;
  LoopHarness harness(request, options);
  harness.Start();
  EXPECT_EQ(harness.draft.opens, 0);
  EXPECT_EQ(lengths.sequences(), 1u);
  harness.Run();
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_EQ(lengths.sequences(), 0u);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  // A probe may fall among the 31 rounds.
  EXPECT_GE(harness.plain_rounds(PlainCause::kPolicyZero), 15u);
  const v1::Last last = MakeLast(request, {*harness.ending});
  const v1::LengthRecord& length = last.speculation().length();
  ASSERT_GE(length.chosen_histogram_size(), 1);
  ASSERT_GE(length.zero_rounds_size(), 1);
  EXPECT_EQ(length.zero_rounds(0).cause(), "acceptance");
  uint32_t zero = 0;
  for (const auto& cause : length.zero_rounds()) zero += cause.rounds();
  EXPECT_EQ(zero, length.chosen_histogram(0));
  // A probe has met a better draft.
  EXPECT_LT(length.alpha(), 0.3);
  EXPECT_NEAR(static_cast<double>(length.draft_token_us()), 2000, 1000);
}

TEST(AutoLengthInALoop, BeginsWithADraftAndTellsWhatItChose) {
  LoopHarness harness(AutoRequest());  // nobody has learned anything
  harness.target.on_step = [](const VerifyStep&, VerifyReply& reply) {
    reply.pass_rows = 100;  // the whole prompt in one pass
    return FakeTarget::Do::kAnswer;
  };
  harness.Start();
  EXPECT_EQ(harness.draft.opens, 1);
  harness.Run();
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GT(harness.ending->counts.draft_tokens, 0u);
  const std::vector<uint32_t>& chosen = harness.ending->counts.chosen_histogram;
  // 4 is the best for a target at hand; the first round has told the way to this one.
  EXPECT_GT(chosen.size(), 5u);
  EXPECT_EQ(std::accumulate(chosen.begin(), chosen.end(), 0u) + 1, harness.ending->counts.rounds)
      << "all but the first";
}

TEST(AutoLengthInALoop, ALoopThatIsCancelledOrDroppedCountsNoMore) {
  CommonLength lengths;
  HarnessOptions options;
  options.lengths = &lengths;
  {
    LoopHarness cancelled(AutoRequest(), options);
    cancelled.Start();
    cancelled.loop->OnCancel(absl::CancelledError("enough"));
    EXPECT_EQ(lengths.sequences(), 0u);
    LoopHarness dropped(AutoRequest(), options);
    dropped.Start();
    LoopHarness never_started(AutoRequest(), options);
    EXPECT_EQ(lengths.sequences(), 1u);
  }
  EXPECT_EQ(lengths.sequences(), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator::auto_length_test
