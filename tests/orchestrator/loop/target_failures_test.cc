// The loop when its target, its reader or its client fail.
#include <functional>
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/loop/speculation_loop.h"
#include "orchestrator/request/internal_reason.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;
using Do = FakeTarget::Do;
using Status = VerifyReply::Status;

std::vector<uint32_t> Undisturbed(const GenerationRequest& request) {
  LoopHarness harness(request);
  harness.Start();
  harness.Run();
  EXPECT_TRUE(harness.ending->status.ok());
  return harness.output();
}

void ExpectSame(const LoopHarness& harness) {
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_EQ(harness.endings, 1);
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), Undisturbed(harness.request));
  EXPECT_EQ(harness.timers.size(), 0u);
}

// At temperature 1 with a sampling draft: a verdict applied twice, or drawn anew under another key,
// would change the text.
class AtStep : public ::testing::TestWithParam<int> {
 protected:
  AtStep() : request(SmallRequest(4, 1.0)) {}

  // Does something to the GetParam()-th Step.
  void OnNthStep(LoopHarness& harness, std::function<Do(const VerifyStep&, VerifyReply&)> act) {
    harness.target.on_step = [this, act = std::move(act)](const VerifyStep& step,
                                                          VerifyReply& reply) {
      return ++steps_ == GetParam() ? act(step, reply) : Do::kAnswer;
    };
  }

  GenerationRequest request;
  int steps_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Rounds, AtStep, ::testing::Values(1, 2, 3, 7));

TEST_P(AtStep, AStreamCutBeforeTheVerdictIsReplayed) {
  LoopHarness harness(request);
  OnNthStep(harness, [&](const VerifyStep&, VerifyReply&) {
    harness.target.Disconnect();
    harness.target.Connect();
    return Do::kDrop;
  });
  harness.Start();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 1u);
  EXPECT_EQ(harness.target.whole_prefixes, 2);
}

TEST_P(AtStep, AVerdictReadBeforeTheCutIsAppliedOnce) {
  LoopHarness harness(request);
  OnNthStep(harness, [&](const VerifyStep&, VerifyReply& reply) {
    // The verdict, then the end of its stream, then the next stream: in that order.
    VerifyReply read = reply;
    const base::Incarnation from = harness.target.incarnation;
    harness.target.queue.push_back([&harness, read, from] { harness.loop->OnVerdict(from, read); });
    harness.target.Disconnect();
    harness.target.Connect();
    return Do::kDrop;
  });
  harness.Start();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 1u);
}

TEST_P(AtStep, DoubledAndLateVerdictsAreNothing) {
  LoopHarness harness(request);
  VerifyReply kept;
  OnNthStep(harness, [&](const VerifyStep&, VerifyReply& reply) {
    kept = reply;
    for (int i = 0; i < 3; ++i) harness.target.Push(kept);
    return Do::kAnswer;
  });
  harness.Start();
  while (!harness.ending.has_value()) {
    ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
    if (steps_ >= GetParam() && !harness.ending.has_value()) harness.target.Push(kept);
  }
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 0u);
}

TEST_P(AtStep, ASilentTargetIsGivenUpByTheWatchdogAndItsLateVerdictFenced) {
  LoopHarness harness(request);
  OnNthStep(harness, [&](const VerifyStep&, VerifyReply&) { return Do::kHold; });
  harness.Start();
  const concurrency::Instant began = harness.clock.Now();
  for (int i = 0; i < 10000 && !harness.ending.has_value(); ++i) {
    if (harness.target.incarnation == base::Incarnation{2})
      harness.target.ReleaseHeld();  // of the first stream
    if (!harness.DeliverOne()) {
      ASSERT_TRUE(harness.FireNextTimer());
    }
  }
  ExpectSame(harness);
  EXPECT_EQ(harness.target.incarnation, base::Incarnation{2});
  EXPECT_LT(harness.clock.Now() - began, absl::Seconds(10));
}

TEST_P(AtStep, EveryFaultStatusLeadsToTheSameText) {
  for (Status status :
       {Status::kStale, Status::kInternal, Status::kClosed, Status::kDraining, Status::kExpired}) {
    steps_ = 0;
    LoopHarness harness(request);
    OnNthStep(harness, [&](const VerifyStep&, VerifyReply& reply) {
      reply.status = status;
      reply.entries.clear();
      return Do::kAnswer;
    });
    harness.Start();
    harness.Run();
    ExpectSame(harness);
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
  }
}

TEST_P(AtStep, ABrokenVerdictIsNotBelieved) {
  const std::vector<std::function<void(VerifyReply&)>> spoils = {
      [](VerifyReply& reply) { reply.entries.pop_back(); },
      [](VerifyReply& reply) { reply.entries.clear(); },
      [](VerifyReply& reply) { reply.entries.back().next_token.reset(); },
      [](VerifyReply& reply) { reply.entries.back().next_token = 1000; },
  };
  for (const auto& spoil : spoils) {
    steps_ = 0;
    LoopHarness harness(request);
    OnNthStep(harness, [&](const VerifyStep&, VerifyReply& reply) {
      spoil(reply);
      return Do::kAnswer;
    });
    harness.Start();
    harness.Run();
    ExpectSame(harness);
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
  }
}

TEST_P(AtStep, ATargetWithoutASlotIsAskedAgain) {
  LoopHarness harness(request);
  const concurrency::Instant began = harness.clock.Now();
  int refusals = 0;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
    if (++steps_ < GetParam() || refusals == 5) return Do::kAnswer;
    if (GetParam() > 1 && refusals == 0) harness.target.Close();
    (void)step;
    ++refusals;
    reply = {};
    reply.round = step.round;
    reply.status = Status::kNoSlot;
    reply.retry_after = absl::Milliseconds(100);
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(refusals, 5);
  EXPECT_GE(harness.clock.Now() - began, absl::Milliseconds(500));
}

TEST(TargetFailures, NeedPrefixIsServedFromWhatIsHeld) {
  for (uint32_t held : {0u, 3u, 6u}) {
    LoopHarness harness(SmallRequest(4, 1.0));
    int steps = 0;
    std::vector<uint32_t> keeps;
    harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
      keeps.push_back(step.prefix.keep);
      if (++steps != 4) return Do::kAnswer;
      EXPECT_GT(step.prefix.keep, held);
      reply = {};
      reply.round = step.round;
      reply.status = Status::kNeedPrefix;
      reply.held = held;
      return Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    ExpectSame(harness);
    EXPECT_EQ(keeps[4], held);
    EXPECT_EQ(harness.ending->counts.target_replays, held == 0 ? 1u : 0u);
  }
}

TEST(TargetFailures, ALongPrefixGoesInPieces) {
  GenerationRequest request = SmallRequest(4, 1.0);
  request.prompt.resize(23, 3);
  HarnessOptions options;
  options.loop.max_prefix_tokens = 5;
  LoopHarness harness(request, options);
  int steps = 0;
  int pieces = 0;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    if (step.more) ++pieces;
    EXPECT_LE(step.prefix.tokens.size(), 5u);
    if (++steps == 9) {  // in the middle of the text: the whole prefix again, in pieces
      harness.target.Disconnect();
      harness.target.Connect();
      return Do::kDrop;
    }
    return Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_GE(pieces, 8);

  HarnessOptions whole;
  LoopHarness plain(request, whole);
  plain.Start();
  plain.Run();
  EXPECT_EQ(harness.output().size(), plain.output().size());
}

TEST(TargetFailures, ATargetThatStaysAwayEndsTheRequest) {
  LoopHarness harness(SmallRequest());
  int steps = 0;
  harness.target.on_step = [&](const VerifyStep&, VerifyReply&) {
    if (++steps == 3) harness.target.Disconnect("10.0.0.7:50051: connection refused");
    return steps == 3 ? Do::kDrop : Do::kAnswer;
  };
  harness.Start();
  const concurrency::Instant began = harness.clock.Now();
  harness.Run();
  EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(harness.ending->status.message(), "no target answered for 30s")
      << "callers are told no address of a peer";
  EXPECT_THAT(LogText(harness.ending->status), HasSubstr("10.0.0.7:50051: connection refused"));
  EXPECT_LT(harness.clock.Now() - began, absl::Seconds(31));
  EXPECT_EQ(harness.timers.size(), 0u);
  EXPECT_FALSE(harness.draft.is_open);
}

TEST(TargetFailures, ATargetThatFailsForeverEndsTheRequestToo) {
  for (bool broken_verdict : {false, true}) {
    LoopHarness harness(SmallRequest());
    harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
      if (broken_verdict) {
        reply.entries.clear();
      } else {
        reply.status = Status::kInternal;
        reply.message = "on fire";
      }
      return Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending.has_value());
    EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kUnavailable);
    EXPECT_LT(harness.target.steps, 200) << "there is a back-off";
  }
}

TEST(TargetFailures, WithoutASlotTheDeadlineDecides) {
  for (bool with_deadline : {false, true}) {
    GenerationRequest request = SmallRequest();
    if (with_deadline) request.deadline = testing::FakeClock().Now() + absl::Seconds(3);
    LoopHarness harness(request);
    harness.target.on_step = [](const VerifyStep&, VerifyReply& reply) {
      reply = {reply.round, Status::kNoSlot, "", 0, absl::Milliseconds(50)};
      return Do::kAnswer;
    };
    harness.Start();
    const concurrency::Instant began = harness.clock.Now();
    harness.Run();
    EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kResourceExhausted);
    const absl::Duration took = harness.clock.Now() - began;
    const absl::Duration max = with_deadline ? absl::Seconds(3) : absl::Seconds(60);
    EXPECT_GE(took, max);
    EXPECT_LE(took, max + absl::Seconds(2));
  }
}

TEST(TargetFailures, TheDeadlineEndsARequest) {
  GenerationRequest request = SmallRequest();
  request.deadline = testing::FakeClock().Now() + absl::Milliseconds(100);
  LoopHarness harness(request);
  std::vector<absl::Duration> remaining;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    remaining.push_back(step.remaining);
    return harness.target.steps == 4 ? Do::kDrop : Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kDeadlineExceeded);
  for (absl::Duration left : remaining) EXPECT_LE(left, absl::Milliseconds(100));
}

TEST(TargetFailures, ARequestWaitsForItsTarget) {
  HarnessOptions options;
  options.connected = false;
  LoopHarness harness(SmallRequest(), options);
  harness.Start();
  harness.DeliverAll();
  EXPECT_EQ(harness.target.steps, 0);
  harness.target.Connect();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 0u);
}

// ---- the client ----

TEST(ClientFailures, ACancellationInAnyStateFreesEverything) {
  for (int events = 0; events < 60; ++events) {
    LoopHarness harness(SmallRequest());
    harness.Start();
    for (int i = 0; i < events && !harness.ending.has_value(); ++i) {
      if (!harness.DeliverOne()) harness.FireNextTimer();
    }
    const bool over = harness.ending.has_value();
    harness.loop->OnCancel(absl::CancelledError("the client went away"));
    ASSERT_TRUE(harness.ending.has_value());
    if (!over) {
      EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kCancelled);
    }
    EXPECT_EQ(harness.target.open_sequences(), 0);
    EXPECT_FALSE(harness.draft.is_open);
    EXPECT_EQ(harness.timers.size(), 0u);
    harness.DeliverAll();  // what was under way is harmless
    EXPECT_EQ(harness.endings, 1);
  }
}

TEST(ClientFailures, ASlowReaderPausesAndResumes) {
  GenerationRequest request = SmallRequest();
  request.max_tokens = 300;
  HarnessOptions options;
  options.loop.max_undelivered_tokens = 64;
  LoopHarness harness(request, options);
  harness.reader.reads = false;
  harness.Start();
  harness.DeliverAll();
  EXPECT_FALSE(harness.ending.has_value());
  EXPECT_GT(harness.stream->undelivered_tokens(), 64u);
  EXPECT_LT(harness.stream->undelivered_tokens(), 64u + 20u);
  EXPECT_TRUE(harness.timers.is_set(LoopTimer::kReader));
  EXPECT_LE(harness.reader.waiting, TokenStream::kMaxQueuedMessages);
  harness.reader.reads = true;
  harness.Read();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 0u);
}

TEST(ClientFailures, AReaderThatPausesLongIsParkedAndRefilled) {
  GenerationRequest request = SmallRequest();
  request.max_tokens = 300;
  HarnessOptions options;
  options.loop.max_undelivered_tokens = 64;
  LoopHarness harness(request, options);
  harness.reader.reads = false;
  harness.Start();
  harness.DeliverAll();
  while (harness.timers.is_set(LoopTimer::kReader) &&
         harness.timers.left(LoopTimer::kReader) <= absl::Seconds(5)) {
    ASSERT_TRUE(harness.FireNextTimer());
  }
  EXPECT_EQ(harness.target.open_sequences(), 0);
  EXPECT_FALSE(harness.draft.is_open);
  harness.reader.reads = true;
  harness.Read();
  harness.Run();
  ExpectSame(harness);
  EXPECT_EQ(harness.ending->counts.target_replays, 1u);
  EXPECT_EQ(harness.draft.opens, 2);
}

// Whether they wait when it pauses, or come later: its slot is free without any time going by.
TEST(ClientFailures, AReaderThatPausesIsParkedAtOnceWhereOthersWait) {
  for (const bool wait_before : {true, false}) {
    GenerationRequest request = SmallRequest();
    request.max_tokens = 300;
    HarnessOptions options;
    options.loop.max_undelivered_tokens = 64;
    LoopHarness harness(request, options);
    harness.reader.reads = false;
    harness.target.others_wait = wait_before;
    harness.Start();
    harness.DeliverAll();
    const concurrency::Instant paused = harness.clock.Now();
    EXPECT_EQ(harness.target.open_sequences(), wait_before ? 0 : 1);
    if (!wait_before) harness.loop->OnSlotWanted();
    EXPECT_EQ(harness.target.open_sequences(), 0);
    EXPECT_FALSE(harness.draft.is_open);
    EXPECT_EQ(harness.clock.Now(), paused);
    EXPECT_EQ(harness.timers.left(LoopTimer::kReader), options.loop.abort_after)
        << "its patience is as long as ever";
    harness.loop->OnSlotWanted();  // late: nothing is left to give
    harness.reader.reads = true;
    harness.Read();
    harness.loop->OnSlotWanted();  // late: it computes again
    harness.Run();
    ExpectSame(harness);
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
  }
}

TEST(ClientFailures, AReaderThatNeverReadsIsAborted) {
  GenerationRequest request = SmallRequest();
  request.max_tokens = 300;
  HarnessOptions options;
  options.loop.max_undelivered_tokens = 64;
  LoopHarness harness(request, options);
  harness.reader.reads = false;
  harness.Start();
  harness.DeliverAll();
  const concurrency::Instant paused = harness.clock.Now();
  harness.Run();
  EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(harness.clock.Now() - paused, options.loop.abort_after) << "its two stages together";
  EXPECT_THAT(std::string(harness.ending->status.message()), HasSubstr("did not read"));
}

}  // namespace
}  // namespace tandem::orchestrator
