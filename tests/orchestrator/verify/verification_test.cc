// A round and its Steps, at one target: what is its fault, and what that costs.
#include "orchestrator/verify/verification.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator::verification_test {
namespace {

using ::testing::ElementsAre;
using Do = FakeTarget::Do;
using Status = VerifyReply::Status;

// 23 tokens in pieces of 5.
LoopHarness InPieces() {
  GenerationRequest request = SmallRequest(0u);
  request.prompt.resize(23, 3);
  HarnessOptions options;
  options.loop.max_prefix_tokens = 5;
  return LoopHarness(request, options);
}

// It takes the first piece, and then says that it holds nothing: again and again.
TEST(Verification, ATargetThatForgetsEveryPieceIsBackedOffFrom) {
  LoopHarness harness = InPieces();
  harness.target.on_step = [](const VerifyStep& step, VerifyReply& reply) {
    if (step.prefix.keep == 0) return Do::kAnswer;
    reply = {};
    reply.round = step.round;
    reply.status = Status::kNeedPrefix;
    return Do::kAnswer;
  };
  harness.target.step_time = absl::Milliseconds(1);
  const concurrency::Instant began = harness.clock.Now();
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(harness.target.steps, 200) << "30 s of it";
  EXPECT_LT(harness.clock.Now() - began, absl::Seconds(31));
}

TEST(Verification, ATargetThatForgetsOnceARoundIsServedAtOnce) {
  LoopHarness harness = InPieces();
  int forgotten = 0;
  size_t forgot_at = 0;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
    const size_t committed = step.prefix.keep + step.prefix.tokens.size();
    if (step.more || committed % 4 != 0 || committed == forgot_at) return Do::kAnswer;
    forgot_at = committed;
    ++forgotten;
    reply = {};
    reply.round = step.round;
    reply.status = Status::kNeedPrefix;
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GT(forgotten, 3);
  EXPECT_TRUE(harness.target.left.empty());
}

// It says that it holds more than it was ever sent. What it is sent again begins at the start.
TEST(Verification, ATargetIsNotBelievedToHoldMoreThanItWasSent) {
  LoopHarness harness(SmallRequest(0u));
  std::vector<uint32_t> keeps;
  bool lied = false;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
    keeps.push_back(step.prefix.keep);
    if (step.prefix.keep < 8 || std::exchange(lied, true)) return Do::kAnswer;
    reply = {};
    reply.round = step.round;
    reply.status = Status::kNeedPrefix;
    reply.held = step.prefix.keep + 5;
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  ASSERT_TRUE(lied);
  const auto told =
      std::find_if(keeps.begin(), keeps.end(), [](uint32_t keep) { return keep >= 8; });
  ASSERT_LT(told + 1, keeps.end());
  EXPECT_EQ(told[1], 0u);
}

// A stream that breaks while the draft is at work: the next round does not wait for an answer that
// cannot come.
TEST(Verification, AStreamThatIsLostBetweenRoundsIsLeftAtOnce) {
  LoopHarness harness(SmallRequest());
  std::optional<concurrency::Instant> lost_at;
  std::optional<concurrency::Instant> sent_at;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
    if (advance.round != 3) return FakeDraft::Do::kAnswer;
    lost_at = harness.clock.Now();
    harness.target.Disconnect();
    harness.target.Connect();
    harness.target.queue.push_back([&] { harness.draft.ReleaseHeld(); });
    return FakeDraft::Do::kHold;
  };
  harness.target.on_step = [&](const VerifyStep&, VerifyReply&) {
    if (lost_at.has_value() && !sent_at.has_value()) sent_at = harness.clock.Now();
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  ASSERT_TRUE(lost_at.has_value() && sent_at.has_value());
  EXPECT_LT(*sent_at - *lost_at, absl::Milliseconds(100)) << "no watchdog had to fire";
}

// A replay that takes longer than the patience is no trouble as long as it gets on.
TEST(Verification, ALongReplayThatGetsOnIsWaitedFor) {
  LoopHarness harness = InPieces();
  harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    if (harness.target.steps == 1) {
      reply.status = Status::kInternal;
      harness.target.step_time = absl::Seconds(9);  // 5 pieces: 45 s
    }
    return Do::kAnswer;
  };
  harness.Start();
  for (int i = 0; i < 100 && harness.output().empty() && !harness.ending.has_value(); ++i) {
    const bool alarm = harness.timers.next_due() <= harness.clock.Now();
    if (!alarm && harness.DeliverOne()) continue;
    ASSERT_TRUE(harness.FireNextTimer());
  }
  EXPECT_FALSE(harness.ending.has_value());
  EXPECT_EQ(harness.output().size(), 1u);
}

// Runs a target that is at fault in some Steps, counted from 1. Returns when each Step was sent.
std::vector<concurrency::Instant> RunWithFaults(LoopHarness& harness,
                                                const std::function<bool(int)>& fails) {
  std::vector<concurrency::Instant> sent;
  harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    sent.push_back(harness.clock.Now());
    if (!fails(harness.target.steps)) return Do::kAnswer;
    reply.entries.clear();
    reply.status = Status::kInternal;
    // Seek will name another stream.
    harness.target.queue.push_back([&] { base::Advance(harness.target.incarnation); });
    return Do::kAnswer;
  };
  harness.target.step_time = absl::ZeroDuration();
  harness.Start();
  harness.Run();
  return sent;
}

TEST(Verification, TheFirstFaultGoesElsewhereAtOnceTheSecondOneWaits) {
  LoopHarness harness(SmallRequest(0u));
  const auto sent = RunWithFaults(harness, [](int step) { return step >= 3 && step <= 5; });
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.ending->counts.target_replays, 3u);
  EXPECT_EQ(sent[3], sent[2]) << "at once";
  EXPECT_GT(sent[4], sent[3]);
  EXPECT_GT(sent[5], sent[4]);
  EXPECT_THAT(harness.target.left,
              ElementsAre(LeaveCause::kFault, LeaveCause::kFault, LeaveCause::kFault));
}

// When each Step of a request was sent, since its first, to a target that fails the first ones.
std::vector<absl::Duration> Tries(uint64_t retry_seed, uint32_t sample_index) {
  GenerationRequest request = SmallRequest(0u);
  request.retry_seed = retry_seed;
  request.sample_index = sample_index;
  request.max_tokens = 1;
  LoopHarness harness(request);
  harness.target.step_time = absl::ZeroDuration();
  const concurrency::Instant began = harness.clock.Now();
  std::vector<absl::Duration> tries;
  harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    tries.push_back(harness.clock.Now() - began);
    if (harness.target.steps <= 5) {
      reply.entries.clear();
      reply.status = Status::kInternal;
    }
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  EXPECT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
  return tries;
}

// Their seed is the same: it is the client's, and says nothing of when to try again.
// Six faults in a row, some rounds that go well, and two faults.
TEST(Verification, ARoundThatGoesWellResetsTheBackOff) {
  GenerationRequest request = SmallRequest(0u);
  request.max_tokens = 40;
  LoopHarness harness(request);
  const auto sent = RunWithFaults(
      harness, [](int step) { return (step >= 3 && step <= 8) || step == 13 || step == 14; });
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  ASSERT_GT(sent.size(), 15u);
  const absl::Duration longest = sent[8] - sent[7];
  const absl::Duration after_the_second = sent[14] - sent[13];
  EXPECT_GT(after_the_second, absl::ZeroDuration());
  EXPECT_LT(after_the_second, longest / 3);
}

TEST(Verification, RequestsOfEqualSeedsDoNotTryAgainAtTheSameInstant) {
  const std::vector<absl::Duration> one = Tries(1, 0);
  ASSERT_EQ(one.size(), 6u);
  EXPECT_EQ(Tries(1, 0), one) << "the jitter alone tells them apart";
  for (const auto& other : {Tries(2, 0), Tries(1, 1), Tries(1, 65535)}) {
    ASSERT_EQ(other.size(), 6u);
    for (size_t i = 1; i < one.size(); ++i) EXPECT_NE(one[i], other[i]) << i;
  }
}

TEST(StepWatchdog, SilenceOfTheStreamAndOfOneSequence) {
  LoopOptions options;
  StepWatchdog watchdog(options);
  using Finding = StepWatchdog::Finding;
  const concurrency::Instant sent(absl::Hours(1));
  watchdog.Sent(sent);
  constexpr uint64_t kMany = 100;  // answers so far
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(1), kMany), options.watchdog_min);
  EXPECT_EQ(watchdog.Limit(absl::Seconds(1), kMany), absl::Seconds(options.watchdog_factor));
  EXPECT_EQ(watchdog.Fired(sent), Finding::kStreamSilent);
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(1), kMany), 2 * options.watchdog_min);
  watchdog.Sent(sent);
  EXPECT_EQ(watchdog.Fired(sent + absl::Milliseconds(1)), Finding::kWait);
  EXPECT_EQ(watchdog.Fired(sent + absl::Milliseconds(2)), Finding::kSequenceLost);
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(1), kMany), 4 * options.watchdog_min);
  watchdog.Reset();
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(1), kMany), options.watchdog_min);
}

// The first passes of a process are slow, and nothing says how slow.
TEST(StepWatchdog, TheFirstStepsOfATargetGetMoreTime) {
  const LoopOptions options;
  const StepWatchdog watchdog(options);
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(20), 0), absl::Seconds(5));
  EXPECT_EQ(watchdog.Limit(absl::Seconds(1), 0), absl::Seconds(8))
      << "what is expected counts, too";
  absl::Duration before = absl::InfiniteDuration();
  for (uint64_t answers = 0; answers < 9; ++answers) {
    const absl::Duration limit = watchdog.Limit(absl::Milliseconds(20), answers);
    EXPECT_LT(limit, before) << answers;
    before = limit;
  }
  EXPECT_EQ(watchdog.Limit(absl::Milliseconds(20), 9), options.watchdog_min);
}

TEST(SlotWait, OnlyTheTimeBeforeTheStepThatGotASlotCounts) {
  SlotWait wait;
  const concurrency::Instant now(absl::Hours(1));
  EXPECT_FALSE(wait.waiting());
  wait.Begin(now);
  wait.Begin(now + absl::Seconds(1));  // still the same wait
  EXPECT_EQ(wait.waited(now + absl::Seconds(2)), absl::Seconds(2));
  EXPECT_EQ(wait.total(now + absl::Seconds(2)), absl::Seconds(2));
  wait.End(now + absl::Seconds(3));
  wait.End(now + absl::Seconds(4));
  EXPECT_EQ(wait.total(now + absl::Seconds(9)), absl::Seconds(3));
  wait.Begin(now + absl::Seconds(10));
  wait.End(now + absl::Seconds(11));
  EXPECT_EQ(wait.total(now + absl::Seconds(20)), absl::Seconds(4));
}

TEST(StageClock, EveryInstantIsOfOneStage) {
  StageClock stages;
  const concurrency::Instant now(absl::Hours(1));
  stages.Begin(now);
  stages.Vain(now + absl::Seconds(2));
  stages.Sent(now + absl::Seconds(2));
  VerifyReply reply;
  reply.computed = absl::Seconds(3);
  reply.queued = absl::Seconds(1);
  stages.Answered(now + absl::Seconds(7), reply);
  RoundStages spent = stages.Take();
  EXPECT_EQ(spent.slot, absl::Seconds(2));
  EXPECT_EQ(spent.device, absl::Seconds(3));
  EXPECT_EQ(spent.queue, absl::Seconds(1));
  EXPECT_EQ(spent.network, absl::Seconds(1));
  EXPECT_EQ(spent.total(), absl::Seconds(7));
  EXPECT_EQ(stages.Take().total(), absl::ZeroDuration()) << "taken";
  reply.computed = absl::Seconds(3);  // more than there was to wait
  stages.Answered(now + absl::Seconds(9), reply);
  spent = stages.Take();
  EXPECT_EQ(spent.device, absl::Seconds(2));
  EXPECT_EQ(spent.total(), absl::Seconds(2));
}

}  // namespace
}  // namespace tandem::orchestrator::verification_test
