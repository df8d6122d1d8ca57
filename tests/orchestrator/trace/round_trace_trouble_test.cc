// Rounds that do not go straight: each Step that was sent has its span, and every stage its time.
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/traced_loop.h"

namespace tandem::orchestrator {
namespace {

using Status = VerifyReply::Status;
using Do = FakeTarget::Do;

std::vector<std::string> Statuses(const RoundSpans& round) {
  std::vector<std::string> statuses;
  for (const testing::FakeSpan& span : round.verify) {
    statuses.push_back(span.text(telemetry::kStatus));
  }
  return statuses;
}

size_t Verifies(const std::vector<RoundSpans>& rounds) {
  size_t count = 0;
  for (const RoundSpans& round : rounds) count += round.verify.size();
  return count;
}

class Trouble : public ::testing::Test {
 protected:
  Trouble() : loop(SmallRequest(4)) {}

  // The answer to the `n`-th Step, from 1 on, is this.
  void AnswerNth(int n, std::function<Do(const VerifyStep&, VerifyReply&)> act) {
    loop.on_step = [this, n, act = std::move(act)](const VerifyStep& step, VerifyReply& reply) {
      return ++steps_ == n ? act(step, reply) : Do::kAnswer;
    };
  }
  void AnswerNth(int n, VerifyReply answer) {
    AnswerNth(n, [answer](const VerifyStep& step, VerifyReply& reply) {
      reply = answer;
      reply.round = step.round;
      return Do::kAnswer;
    });
  }
  // Runs to a good end. The rounds, each of whose Steps has its span.
  std::vector<RoundSpans> Run() {
    loop.Run();
    EXPECT_TRUE(loop.harness().ending->status.ok()) << loop.harness().ending->status;
    EXPECT_EQ(loop.harness().output(), loop.harness().PlainIds());
    loop.ExpectSound();
    std::vector<RoundSpans> rounds = loop.Rounds();
    EXPECT_EQ(Verifies(rounds), loop.sent_steps.size());
    size_t step = 0;
    for (const RoundSpans& round : rounds) {
      for (const testing::FakeSpan& verify : round.verify) {
        EXPECT_EQ(verify.context, loop.sent_steps[step++]);
      }
    }
    return rounds;
  }

  TracedLoop loop;

 private:
  int steps_ = 0;
};

using Words = std::vector<std::string>;

TEST_F(Trouble, ALostTargetsStepIsReplayedInTheSameRound) {
  AnswerNth(3, [&](const VerifyStep&, VerifyReply&) {
    loop.harness().clock.Advance(absl::Milliseconds(7));
    loop.harness().target.Disconnect("cut");
    loop.harness().target.Connect();
    return Do::kDrop;
  });
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[2]), (Words{"LOST", "OK"}));
  EXPECT_TRUE(rounds[2].verify[0].failure.has_value());
  EXPECT_EQ(rounds[2].verify[0].text(telemetry::kErrorType), "LOST");
  EXPECT_FALSE(rounds[2].verify[1].Has(telemetry::kErrorType));
  EXPECT_EQ(rounds[2].round.number(telemetry::kStageSlot), 7000) << "it came to nothing";
  ASSERT_EQ(rounds[2].round.events.size(), 1u);
  EXPECT_EQ(rounds[2].round.events[0].first, telemetry::kReplayEvent);
  EXPECT_FALSE(rounds[2].round.failure.has_value()) << "the round was decided";
  EXPECT_GT(rounds[2].verify[1].number(telemetry::kRows), 5) << "the whole prefix again";
  EXPECT_EQ(loop.harness().ending->counts.target_replays, 1u);
}

TEST_F(Trouble, TheWatchdogEndsASilentStep) {
  for (int i = 0; i < 10; ++i) {  // it is not a target that has just begun
    loop.harness().target.pace->Answered(5, loop.harness().target.step_time);
  }
  AnswerNth(3, [](const VerifyStep&, VerifyReply&) { return Do::kDrop; });
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[2]), (Words{"LOST", "OK"}));
  EXPECT_EQ(rounds[2].verify[0].duration(), absl::Milliseconds(500));
  EXPECT_EQ(rounds[2].round.number(telemetry::kStageSlot), 500000);
}

TEST_F(Trouble, WithoutASlotTheRoundWaitsBetweenTwoSteps) {
  AnswerNth(1, {.status = Status::kNoSlot, .retry_after = absl::Milliseconds(100)});
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[0]), (Words{"NO_SLOT", "OK"}));
  EXPECT_FALSE(rounds[0].verify[0].failure.has_value()) << "it was well refused";
  EXPECT_EQ(rounds[0].verify[1].began - rounds[0].verify[0].ended, absl::Milliseconds(100));
  EXPECT_EQ(rounds[0].round.number(telemetry::kStageSlot), 110000);
}

TEST_F(Trouble, NoTargetAtFirstIsTimeOfTheFirstRound) {
  HarnessOptions options;
  options.connected = false;
  TracedLoop late(SmallRequest(4), options);
  late.harness().Start();
  late.harness().DeliverAll();
  late.harness().clock.Advance(absl::Milliseconds(50));
  late.harness().target.Connect();
  late.harness().Run();
  late.ExpectSound();
  const std::vector<RoundSpans> rounds = late.Rounds();
  EXPECT_EQ(Statuses(rounds[0]), (Words{"OK"}));
  EXPECT_EQ(rounds[0].round.number(telemetry::kStageSlot), 50000);
}

TEST_F(Trouble, ATargetThatLacksThePrefixIsAskedAgain) {
  AnswerNth(4, {.status = Status::kNeedPrefix, .held = 3});
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[3]), (Words{"NEED_PREFIX", "OK"}));
  EXPECT_EQ(rounds[3].round.number(telemetry::kStageSlot), 10000);
  EXPECT_EQ(loop.harness().ending->counts.target_replays, 0u);
}

TEST_F(Trouble, ARefusedBlockAndTheRoundWithoutItAreOneRound) {
  AnswerNth(3, {.status = Status::kInvalid, .message = "candidates", .field = "candidates"});
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[2]), (Words{"INVALID", "OK"}));
  ASSERT_EQ(rounds[2].propose.size(), 1u);
  EXPECT_EQ(rounds[2].propose[0].text(telemetry::kStatus), "OK") << "it did come";
  EXPECT_EQ(rounds[2].round.text(telemetry::kCause), "draft-invalid");
  EXPECT_EQ(rounds[2].round.number(telemetry::kDrafted), 0);
  EXPECT_EQ(rounds[2].round.number(telemetry::kStageSlot), 10000) << "that Step came to nothing";
  EXPECT_EQ(rounds[2].round.number(telemetry::kStageOwn), 0);
}

TEST_F(Trouble, ABrokenVerdictWasAnAnswerAndTheRoundRunsAgain) {
  AnswerNth(3, [](const VerifyStep&, VerifyReply& reply) {
    reply.entries.clear();
    return Do::kAnswer;
  });
  const std::vector<RoundSpans> rounds = Run();
  EXPECT_EQ(Statuses(rounds[2]), (Words{"OK", "OK"}));
  EXPECT_EQ(rounds[2].round.events.size(), 1u);
}

TEST_F(Trouble, FaultsAreBackedOffAndToldApart) {
  int steps = 0;
  loop.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    ++steps;
    if (steps == 3 || steps == 4) reply.status = Status::kInternal;
    if (steps == 7) reply.status = Status::kDraining;
    return Do::kAnswer;
  };
  const std::vector<RoundSpans> rounds = Run();
  std::vector<std::string> statuses;
  for (const RoundSpans& round : rounds) {
    for (const std::string& status : Statuses(round)) {
      if (status != "OK") statuses.push_back(status);
    }
  }
  EXPECT_EQ(statuses, (Words{"FAULT", "FAULT", "DRAINING"}));
}

TEST_F(Trouble, EveryPieceOfALongPrefixHasASpan) {
  GenerationRequest request = SmallRequest(4);
  request.prompt.resize(23, 3);
  HarnessOptions options;
  options.loop.max_prefix_tokens = 5;
  TracedLoop pieces(request, options);
  pieces.on_step = [](const VerifyStep&, VerifyReply& reply) {
    reply.computed = absl::Milliseconds(1);
    return Do::kAnswer;
  };
  pieces.Run();
  pieces.ExpectSound();
  const std::vector<RoundSpans> rounds = pieces.Rounds();
  EXPECT_EQ(Statuses(rounds[0]), (Words{"OK", "OK", "OK", "OK", "OK"}));
  EXPECT_EQ(rounds[0].round.number(telemetry::kStageDevice), 5000) << "of all of them";
  EXPECT_EQ(rounds[0].round.number(telemetry::kStageSlot), 0);
  EXPECT_EQ(Verifies(rounds), pieces.sent_steps.size());
}

TEST_F(Trouble, AReadersPauseBelongsToNoRound) {
  GenerationRequest request = SmallRequest(4);
  request.max_tokens = 300;
  HarnessOptions options;
  options.loop.max_undelivered_tokens = 64;
  TracedLoop slow(request, options);
  slow.harness().reader.reads = false;
  slow.harness().Start();
  slow.harness().DeliverAll();
  slow.harness().clock.Advance(absl::Seconds(3));
  slow.harness().reader.reads = true;
  slow.harness().Read();
  slow.harness().Run();
  slow.ExpectSound();
  EXPECT_GT(slow.harness().ending->times.total,
            slow.harness().ending->times.stages.total() + absl::Seconds(2));
  for (const RoundSpans& round : slow.Rounds()) EXPECT_LT(round.round.duration(), absl::Seconds(1));
}

TEST(TraceEnds, ACancellationInAnyStateEndsAllSpansThere) {
  int in_proposal = 0;
  int in_verify = 0;
  for (int events = 0; events < 60; ++events) {
    TracedLoop loop(SmallRequest(4));
    LoopHarness& harness = loop.harness();
    harness.Start();
    for (int i = 0; i < events && !harness.ending.has_value(); ++i) {
      if (!harness.DeliverOne()) harness.FireNextTimer();
    }
    harness.clock.Advance(absl::Milliseconds(1));
    if (harness.ending.has_value()) break;
    const concurrency::Instant end = harness.clock.Now();
    harness.loop->OnCancel(absl::CancelledError("the client went away"));
    harness.clock.Advance(absl::Seconds(1));
    loop.ExpectSound();
    const std::vector<RoundSpans> rounds = loop.Rounds();
    const RoundSpans& last = rounds.back();
    ASSERT_FALSE(last.decided());
    EXPECT_EQ(last.round.ended, end);
    for (const auto* children : {&last.propose, &last.verify}) {
      if (children->empty() || children->back().text(telemetry::kStatus) != "ENDED") continue;
      EXPECT_EQ(children->back().ended, end);
      ++(children == &last.propose ? in_proposal : in_verify);
    }
    const std::vector<testing::FakeSpan> spans = loop.tracer().Finished();
    EXPECT_EQ(spans.back().name, telemetry::kGenerateSpan);
    EXPECT_TRUE(spans.back().failure.has_value());
  }
  EXPECT_GT(in_proposal, 2);
  EXPECT_GT(in_verify, 5);
}

}  // namespace
}  // namespace tandem::orchestrator
