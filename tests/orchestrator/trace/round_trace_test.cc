#include "orchestrator/trace/round_trace.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/telemetry/attributes.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/traced_loop.h"

namespace tandem::orchestrator {
namespace {

using testing::FakeSpan;
using DraftDo = FakeDraft::Do;
using TargetDo = FakeTarget::Do;

// Every context that was sent is that of one span of these, in this order.
template <typename Spans>
void ExpectSent(const std::vector<telemetry::SpanContext>& sent, const Spans& spans) {
  ASSERT_EQ(sent.size(), spans.size());
  std::set<std::array<uint8_t, 8>> ids;
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(sent[i].sampled());
    EXPECT_EQ(sent[i], spans[i].context) << i;
    ids.insert(sent[i].span_id);
  }
  EXPECT_EQ(ids.size(), sent.size()) << "each has a span of its own";
}

std::vector<FakeSpan> All(const std::vector<RoundSpans>& rounds,
                          std::vector<FakeSpan> RoundSpans::*which) {
  std::vector<FakeSpan> all;
  for (const RoundSpans& round : rounds) {
    all.insert(all.end(), (round.*which).begin(), (round.*which).end());
  }
  return all;
}

// A draft that says what it took, and takes it.
DraftDo Take(LoopHarness& harness, DraftReplyBlock& reply, absl::Duration at_draft,
             absl::Duration on_the_way) {
  reply.at_draft = at_draft;
  harness.clock.Advance(at_draft + on_the_way);
  return DraftDo::kAnswer;
}

TEST(RoundTrace, APlainRoundIsOneVerify) {
  TracedLoop loop(SmallRequest(0));
  loop.on_step = [](const VerifyStep&, VerifyReply& reply) {
    reply.queued = absl::Milliseconds(2);
    reply.computed = absl::Milliseconds(3);
    reply.pass_id = 77;
    reply.pass_rows = 12;
    reply.pass_sequences = 5;
    reply.prefill = absl::Milliseconds(4);
    return TargetDo::kAnswer;
  };
  loop.Run();
  loop.ExpectSound();
  const std::vector<RoundSpans> rounds = loop.Rounds();
  ASSERT_EQ(rounds.size(), 32u);
  for (const RoundSpans& round : rounds) {
    EXPECT_TRUE(round.propose.empty());
    ASSERT_EQ(round.verify.size(), 1u);
    EXPECT_EQ(round.round.number(telemetry::kSampleIndex), 0);
    EXPECT_EQ(round.round.text(telemetry::kRule), "greedy");
    EXPECT_EQ(round.round.number(telemetry::kPassId), 77);
    EXPECT_EQ(round.round.number(telemetry::kPassRows), 12);
    EXPECT_EQ(round.round.number(telemetry::kPassSequences), 5);
    EXPECT_EQ(round.round.number(telemetry::kPrefill), 4000);
    EXPECT_EQ(round.round.number(telemetry::kStageQueue), 2000);
    EXPECT_EQ(round.round.number(telemetry::kStageDevice), 3000);
    EXPECT_EQ(round.round.number(telemetry::kStageNetwork), 5000) << "a Step takes 10 ms";
    const FakeSpan& verify = round.verify[0];
    EXPECT_EQ(verify.duration(), absl::Milliseconds(10));
    EXPECT_EQ(verify.text(telemetry::kStatus), "OK");
    EXPECT_EQ(verify.number(telemetry::kQueued), 2000);
    EXPECT_EQ(verify.number(telemetry::kComputed), 3000);
    EXPECT_EQ(verify.number(telemetry::kPassId), 77);
    EXPECT_FALSE(verify.failure.has_value());
  }
  EXPECT_EQ(rounds[0].round.text(telemetry::kCause), "first-round");
  EXPECT_EQ(rounds[1].round.text(telemetry::kCause), "off");
  EXPECT_EQ(rounds[0].verify[0].number(telemetry::kRows), 5);
  EXPECT_EQ(rounds[1].verify[0].number(telemetry::kRows), 1);
  ExpectSent(loop.sent_steps, All(rounds, &RoundSpans::verify));
}

TEST(RoundTrace, ADraftedRoundIsAProposalAndAVerify) {
  TracedLoop loop(SmallRequest(4));
  loop.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
    return Take(loop.harness(), reply, absl::Milliseconds(2), absl::Milliseconds(1));
  };
  loop.Run();
  loop.ExpectSound();
  const std::vector<RoundSpans> rounds = loop.Rounds();
  EXPECT_TRUE(rounds[0].propose.empty());
  for (size_t i = 1; i < rounds.size(); ++i) {
    if (rounds[i].round.attributes.contains(telemetry::kCause)) continue;  // no room at the end
    ASSERT_EQ(rounds[i].propose.size(), 1u);
    const FakeSpan& propose = rounds[i].propose[0];
    EXPECT_EQ(propose.text(telemetry::kStatus), "OK");
    EXPECT_EQ(propose.number(telemetry::kDrafted), rounds[i].round.number(telemetry::kDrafted));
    EXPECT_GE(propose.number(telemetry::kMaxTokens), propose.number(telemetry::kDrafted));
    EXPECT_EQ(propose.duration(), absl::Milliseconds(3));
    EXPECT_EQ(rounds[i].round.number(telemetry::kStageDraft), 2000);
    EXPECT_EQ(rounds[i].round.number(telemetry::kStageNetwork), 1000 + 9000);
    EXPECT_EQ(rounds[i].verify[0].began, propose.ended);
    EXPECT_EQ(propose.text(telemetry::kRpcSystem), "grpc");
    EXPECT_EQ(propose.text(telemetry::kRpcMethod), "tandem.internal.v1.Draft/Propose");
    EXPECT_EQ(propose.text(telemetry::kServerAddress), "draft");
    EXPECT_EQ(propose.number(telemetry::kServerPort), 50051);
    EXPECT_EQ(rounds[i].verify[0].text(telemetry::kRpcMethod), "tandem.internal.v1.Target/Verify");
    EXPECT_EQ(rounds[i].verify[0].text(telemetry::kServerAddress), "fake");
  }
  ExpectSent(loop.sent_advances, All(rounds, &RoundSpans::propose));
  ExpectSent(loop.sent_steps, All(rounds, &RoundSpans::verify));
  EXPECT_GT(loop.sent_advances.size(), 3u);
}

// A chained Step travels with the span that waits for the Step before, and its round has a `verify`
// like any other.
TEST(RoundTrace, AChainedStepGoesBehindAVerify) {
  GenerationRequest request = SmallRequest(3);
  request.prepare = 16;
  TracedLoop loop(request);
  loop.harness().draft.prepares = loop.harness().target.chains = true;
  std::vector<telemetry::SpanContext> chained;
  loop.harness().target.on_chained = [&](const VerifyStep& step) {
    chained.push_back(step.trace.value_or(telemetry::SpanContext()));
  };
  loop.Run();
  loop.ExpectSound();
  std::vector<telemetry::SpanContext> verifies;
  bool behind = false;  // a verify that may have a chained Step behind it
  size_t chained_rounds = 0;
  for (const RoundSpans& round : loop.Rounds()) {
    ASSERT_EQ(round.verify.size(), 1u);
    const telemetry::SpanContext& verify = round.verify[0].context;
    if (round.round.Has(telemetry::kPrepared) &&
        round.round.text(telemetry::kPrepared) == "chained") {
      EXPECT_TRUE(behind) << "the round before has a Step to be behind";
      ++chained_rounds;
    }
    behind = std::find(chained.begin(), chained.end(), verify) != chained.end();
    if (behind) verifies.push_back(verify);
  }
  EXPECT_GT(chained_rounds, 2u);
  EXPECT_EQ(chained, verifies);
}

TEST(RoundTrace, ALateBlocksProposalEndsAtTheDeadline) {
  TracedLoop loop(SmallRequest(4));
  int advances = 0;
  loop.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
    return ++advances == 2 ? DraftDo::kHold : DraftDo::kAnswer;
  };
  loop.Run();
  loop.ExpectSound();
  int late = 0;
  int not_asked = 0;
  for (const RoundSpans& round : loop.Rounds()) {
    if (!round.round.attributes.contains(telemetry::kCause)) continue;
    if (round.round.text(telemetry::kCause) != "draft-late") continue;
    if (round.propose.empty()) {  // the draft still owes its block: nothing is waited for
      EXPECT_EQ(round.round.number(telemetry::kStageDraft), 0);
      ++not_asked;
      continue;
    }
    ++late;
    EXPECT_EQ(round.propose[0].text(telemetry::kStatus), "LATE");
    EXPECT_EQ(round.propose[0].number(telemetry::kDrafted), 0);
    EXPECT_EQ(round.propose[0].duration(), absl::Milliseconds(40)) << "four of the target's rounds";
    EXPECT_EQ(round.round.number(telemetry::kStageDraft), 40000);
  }
  EXPECT_EQ(late, 1);
  EXPECT_GT(not_asked, 5);
}

TEST(RoundTrace, ADraftThatDoesNotOpenIsWaitedForOnce) {
  TracedLoop loop(SmallRequest(4));
  loop.harness().draft.silent_open = true;
  loop.Run();
  loop.ExpectSound();
  const std::vector<FakeSpan> proposals = All(loop.Rounds(), &RoundSpans::propose);
  ASSERT_EQ(proposals.size(), 1u);
  EXPECT_EQ(proposals[0].text(telemetry::kStatus), "LATE");
  EXPECT_GT(proposals[0].duration(), absl::ZeroDuration());
  EXPECT_FALSE(proposals[0].attributes.contains(telemetry::kMaxTokens)) << "nothing was asked";
  EXPECT_TRUE(loop.sent_advances.empty());
}

TEST(RoundTrace, ADraftThatIsLostEndsItsProposal) {
  TracedLoop loop(SmallRequest(4));
  int advances = 0;
  loop.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
    if (++advances != 2) return DraftDo::kAnswer;
    loop.harness().draft.Break();
    return DraftDo::kDrop;
  };
  loop.Run();
  loop.ExpectSound();
  std::vector<std::string> statuses;
  for (const FakeSpan& span : All(loop.Rounds(), &RoundSpans::propose)) {
    statuses.push_back(span.text(telemetry::kStatus));
  }
  ASSERT_GE(statuses.size(), 2u);
  EXPECT_EQ(statuses[0], "OK");
  EXPECT_EQ(statuses[1], "LOST");
}

// What the peers say of themselves is cut at what was waited for them, whatever it is.
TEST(RoundTrace, StagesSumUpWhateverThePeersSay) {
  const absl::Duration said[] = {absl::Hours(1), absl::InfiniteDuration(), -absl::Hours(1),
                                 absl::Milliseconds(9), absl::ZeroDuration()};
  for (absl::Duration draft : said) {
    for (absl::Duration queued : said) {
      for (absl::Duration computed : said) {
        TracedLoop loop(SmallRequest(4));
        loop.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
          reply.at_draft = draft;
          loop.harness().clock.Advance(absl::Milliseconds(3));
          return DraftDo::kAnswer;
        };
        loop.on_step = [&](const VerifyStep&, VerifyReply& reply) {
          reply.queued = queued;
          reply.computed = computed;
          return TargetDo::kAnswer;
        };
        loop.Run();
        loop.ExpectSound();
        ASSERT_TRUE(loop.harness().ending->status.ok());
      }
    }
  }
}

// The checking function sees what it is there for.
TEST(RoundTrace, ProblemsAreFound) {
  TracedLoop loop(SmallRequest(4));
  loop.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
    return Take(loop.harness(), reply, absl::Milliseconds(2), absl::Milliseconds(1));
  };
  loop.Run();
  const RoundSpans good = loop.Rounds()[1];
  const RoundRecord record = loop.records()[1];
  ASSERT_EQ(ProblemsOf(good, record), "");

  RoundRecord left_out = record;  // a stage that nobody counted
  left_out.stages.network = absl::ZeroDuration();
  EXPECT_NE(ProblemsOf(good, left_out), "");

  RoundRecord uncut = record;  // the target's word taken for more than was waited for it
  uncut.stages.device += absl::Seconds(1);
  uncut.stages.network -= absl::Seconds(1);
  RoundSpans told = good;
  told.round.attributes[telemetry::kStageDevice] = absl::ToInt64Microseconds(uncut.stages.device);
  told.round.attributes[telemetry::kStageNetwork] = absl::ToInt64Microseconds(uncut.stages.network);
  EXPECT_NE(ProblemsOf(told, uncut), "");

  RoundRecord moved = record;  // time in the wrong stage
  moved.stages.slot += absl::Milliseconds(1);
  moved.stages.device -= absl::Milliseconds(1);
  told = good;
  told.round.attributes[telemetry::kStageSlot] = absl::ToInt64Microseconds(moved.stages.slot);
  told.round.attributes[telemetry::kStageDevice] = absl::ToInt64Microseconds(moved.stages.device);
  EXPECT_NE(ProblemsOf(told, moved), "");

  RoundSpans overlapping = good;
  overlapping.verify[0].began -= absl::Nanoseconds(1);
  EXPECT_NE(ProblemsOf(overlapping, record), "");
  RoundSpans without = good;
  without.propose.clear();
  EXPECT_NE(ProblemsOf(without, record), "");
  RoundSpans longer = good;
  longer.round.ended += absl::Nanoseconds(1);
  EXPECT_NE(ProblemsOf(longer, record), "");
}

}  // namespace
}  // namespace tandem::orchestrator
