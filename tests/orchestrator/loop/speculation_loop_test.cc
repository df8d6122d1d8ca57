#include "orchestrator/loop/speculation_loop.h"

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using DraftDo = FakeDraft::Do;
using TargetDo = FakeTarget::Do;

uint32_t Sum(const AcceptanceCounts& counts) {
  return std::accumulate(counts.accepted_histogram.begin(), counts.accepted_histogram.end(), 0u);
}

// What holds of every request that ended well.
void ExpectSound(const LoopHarness& harness) {
  ASSERT_TRUE(harness.ending.has_value());
  EXPECT_EQ(harness.endings, 1);
  EXPECT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  const AcceptanceCounts& counts = harness.ending->counts;
  EXPECT_EQ(Sum(counts), counts.rounds);
  uint32_t plain = 0;
  for (uint32_t rounds : counts.plain_rounds) plain += rounds;
  EXPECT_LE(plain, counts.rounds);
  EXPECT_LE(counts.accepted_tokens, counts.draft_tokens);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kFirstRound), 1u);
  EXPECT_EQ(harness.timers.size(), 0u);
  EXPECT_EQ(harness.target.open_sequences(), 0);
  EXPECT_FALSE(harness.draft.is_open);
  EXPECT_EQ(harness.ending->output_tokens, harness.output().size());
}

// ---- the same text as the target alone ----

class GreedyEquality : public ::testing::TestWithParam<int> {};

TEST_P(GreedyEquality, SameIdsAsTheTargetAlone) {
  for (double noise : {0.0, 0.5, 5.0}) {
    for (uint64_t first = 0; first < 4; ++first) {
      GenerationRequest request = SmallRequest(GetParam());
      request.prompt[0] = static_cast<uint32_t>(first);
      HarnessOptions options;
      options.draft_noise = noise;
      LoopHarness harness(request, options);
      harness.Start();
      harness.Run();
      ExpectSound(harness);
      EXPECT_EQ(harness.output(), harness.PlainIds());
      EXPECT_EQ(harness.ending->finish, Finish::kLength);
      if (noise == 0.0 && GetParam() > 0) {
        EXPECT_EQ(harness.ending->counts.draft_tokens, harness.ending->counts.accepted_tokens);
        EXPECT_EQ(harness.ending->counts.rejected_rounds, 0u);
        EXPECT_LT(harness.ending->counts.rounds, 32u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DraftTokens, GreedyEquality, ::testing::Range(0, 9));

TEST(SpeculationLoop, WithoutADraftASeedGivesThePlainDraws) {
  HarnessOptions options;
  options.with_draft = false;
  LoopHarness harness(SmallRequest(std::nullopt, 1.0), options);
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.plain_rounds(PlainCause::kOff), 31u);
}

TEST(SpeculationLoop, ZeroDraftTokensNeverOpenTheDraft) {
  LoopHarness harness(SmallRequest(0));
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.draft.opens, 0);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kOff), 31u);
}

TEST(SpeculationLoop, DraftAndTargetReadThePromptTogether) {
  LoopHarness harness(SmallRequest());
  harness.DeliverOne();  // the stream is there
  harness.Start();
  EXPECT_EQ(harness.draft.opens, 1);
  EXPECT_EQ(harness.target.steps, 1);
  EXPECT_EQ(harness.draft.advances, 0);
}

TEST(SpeculationLoop, NeverAsksForMoreThanCanBeUsed) {
  GenerationRequest request = SmallRequest(8);
  request.max_tokens = 6;
  HarnessOptions options;
  options.draft_noise = 0;
  LoopHarness harness(request, options);
  std::vector<uint32_t> asked;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
    asked.push_back(advance.max_draft_tokens);
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  // One token of the first round, four draft tokens, the bonus.
  EXPECT_EQ(asked, std::vector<uint32_t>{4});
  EXPECT_EQ(harness.output().size(), 6u);
}

TEST(SpeculationLoop, NoRoomForACandidateIsAPlainRound) {
  GenerationRequest request = SmallRequest(8);
  request.max_tokens = 2;
  LoopHarness harness(request);
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kPolicyZero), 1u);
  EXPECT_EQ(harness.draft.advances, 0);
}

// ---- where the text ends ----

TEST(SpeculationLoop, AStopStringIsFoundAcrossBlocks) {
  LoopHarness plain(SmallRequest(0));
  plain.Start();
  plain.Run();
  const std::string text = plain.reader.text;
  for (size_t begin = 1; begin + 4 < text.size(); begin += 3) {
    const std::string stop = text.substr(begin, 4);
    const size_t first = text.find(stop);
    for (uint32_t draft_tokens : {1, 3, 5, 8}) {
      GenerationRequest request = SmallRequest(draft_tokens);
      request.stop_strings = {stop};
      LoopHarness harness(request);
      harness.Start();
      harness.Run();
      ExpectSound(harness);
      EXPECT_EQ(harness.reader.text, text.substr(0, first));
      EXPECT_EQ(harness.output().size(), first + 4) << "ids up to the one that completed it";
      EXPECT_EQ(harness.ending->finish, Finish::kStop);
      EXPECT_EQ(harness.ending->stop_string, stop);
    }
  }
}

// ---- the draft breaks ----

TEST(SpeculationLoop, ASilentDraftCostsOneDeadline) {
  LoopHarness harness(SmallRequest());
  harness.draft.on_advance = [](const DraftAdvance&, DraftReplyBlock&) { return DraftDo::kDrop; };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.draft.advances, 1);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftLate), 30u);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kPolicyZero), 1u) << "the last token";
  EXPECT_LE(harness.ending->times.draft, harness.options.loop.draft_wait);
}

TEST(SpeculationLoop, ALateBlockIsDroppedWholeAndDraftingResumes) {
  LoopHarness harness(SmallRequest());
  int advances = 0;
  harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
    return ++advances == 2 ? DraftDo::kHold : DraftDo::kAnswer;
  };
  int late_steps = 0;
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    if (advances == 2 && step.block.tokens.empty() && ++late_steps == 3) {
      harness.draft.ReleaseHeld();
    }
    return TargetDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GE(harness.plain_rounds(PlainCause::kDraftLate), 3u);
  EXPECT_LE(harness.plain_rounds(PlainCause::kDraftLate), 4u);
  EXPECT_GT(advances, 3);
}

TEST(SpeculationLoop, TheWaitForABlockFollowsTheTargetsPace) {
  LoopHarness harness(SmallRequest());
  harness.target.step_time = absl::Milliseconds(10);
  std::vector<absl::Duration> waits;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
    waits.push_back(advance.wanted_within);
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_FALSE(waits.empty());
  for (absl::Duration wait : waits) EXPECT_EQ(wait, absl::Milliseconds(40));
}

// A draft that is too slow for the moment costs less and less, and is in favour again once it is in
// time.
TEST(SpeculationLoop, ADraftThatIsAlwaysLateIsWaitedForLessAndLess) {
  LoopHarness harness(SmallRequest());
  std::vector<absl::Duration> waits;
  bool slow = true;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
    waits.push_back(advance.wanted_within);
    slow = waits.size() <= 7;
    return slow ? DraftDo::kHold : DraftDo::kAnswer;
  };
  harness.target.on_step = [&](const VerifyStep&, VerifyReply&) {
    if (slow) harness.draft.ReleaseHeld();  // too late for its round
    return TargetDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  ASSERT_GT(waits.size(), 10u);
  for (size_t i = 1; i < 5; ++i) EXPECT_LE(waits[i], 0.51 * waits[i - 1]) << i;
  EXPECT_LE(waits[6], waits[0] / 16);
  EXPECT_GT(waits[9], waits[7]);
  EXPECT_LE(harness.ending->times.draft, 2.5 * harness.options.loop.draft_wait);
}

// A block that is cut at the wanted time must still come in time: the draft is not given what
// passes on the way.
TEST(SpeculationLoop, TheDraftIsGivenWhatTheWayLeaves) {
  LoopHarness harness(SmallRequest());
  harness.target.step_time = absl::Milliseconds(10);
  std::vector<absl::Duration> waits;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
    waits.push_back(advance.wanted_within);
    harness.clock.Advance(absl::Milliseconds(9));
    reply.at_draft = absl::Milliseconds(3);
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_GE(waits.size(), 3u);
  EXPECT_EQ(waits[0], absl::Milliseconds(40)) << "nothing is known yet";
  for (size_t i = 1; i < waits.size(); ++i) {
    EXPECT_GE(waits[i], absl::Milliseconds(33)) << i;
    EXPECT_LE(waits[i], absl::Milliseconds(35)) << i;
  }
}

TEST(SpeculationLoop, GarbageIsCountedAndTheDraftOpenedAnew) {
  using Spoil = std::function<void(DraftReplyBlock&)>;
  const std::vector<Spoil> spoils = {
      [](DraftReplyBlock& b) { b.block.tokens.resize(20, 1); },
      [](DraftReplyBlock& b) { b.block.q.resize(b.block.tokens.size() + 1); },
      [](DraftReplyBlock& b) { b.round += 5; },
      [](DraftReplyBlock& b) { b.is_whole = false; },
      [](DraftReplyBlock& b) { b.block.id = {}; },
  };
  for (const Spoil& spoil : spoils) {
    LoopHarness harness(SmallRequest());
    int advances = 0;
    harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
      if (++advances == 2) spoil(reply);
      return DraftDo::kAnswer;
    };
    harness.target.step_time = absl::Milliseconds(5);
    harness.Start();
    harness
        .DeliverAll();  // time moves with the verdicts; the back-off passes meanwhile or at the end
    harness.Run();
    ExpectSound(harness);
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_GE(harness.plain_rounds(PlainCause::kDraftInvalid), 1u);
  }
}

TEST(SpeculationLoop, AnUnknownTokenStaysInItsBlock) {
  LoopHarness harness(SmallRequest());
  harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
    reply.block.tokens[0] = 1'000'000;
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.ending->counts.accepted_tokens, 0u);
  EXPECT_GT(harness.ending->counts.draft_tokens, 0u);
}

TEST(SpeculationLoop, ABlockThatTheTargetRefusesIsNotWorthTheRequest) {
  for (const char* field : {"candidates", "candidates[0]", "parents", "q[1].ids", "block_id"}) {
    SCOPED_TRACE(field);
    LoopHarness harness(SmallRequest());
    harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
      if (!step.block.tokens.empty()) {
        reply.status = VerifyReply::Status::kInvalid;
        reply.field = field;
        reply.message = "INVALID: no";
      }
      return TargetDo::kAnswer;
    };
    harness.Start();
    harness.Run();
    ExpectSound(harness);
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_GT(harness.plain_rounds(PlainCause::kDraftInvalid), 0u);
  }
}

TEST(SpeculationLoop, AnotherFieldThatTheTargetRefusesIsNoFaultOfTheDraft) {
  for (const char* field : {"prefix.tokens[2]", "options.rule", "quota", "sequence", ""}) {
    SCOPED_TRACE(field);
    LoopHarness harness(SmallRequest());
    harness.target.on_step = [&](const VerifyStep& step, VerifyReply& reply) {
      if (!step.block.tokens.empty()) {
        reply.status = VerifyReply::Status::kInvalid;
        reply.field = field;
        reply.message = absl::StrCat("INVALID ", field);
      }
      return TargetDo::kAnswer;
    };
    harness.Start();
    harness.Run();
    EXPECT_EQ(harness.ending->status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(harness.ending->status.message()), ::testing::HasSubstr(field));
    EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftInvalid), 0u);
  }
}

TEST(SpeculationLoop, AQThatIsNoneIsVerifiedAsOneHotAndCounted) {
  LoopHarness harness(SmallRequest(4, 1.0));
  harness.draft.on_advance = [](const DraftAdvance&, DraftReplyBlock& reply) {
    for (sampling::SparseDistribution& q : reply.block.q) q.weights.pop_back();
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_GT(harness.ending->counts.one_hot_blocks, 0u);
}

TEST(SpeculationLoop, AnEmptyBlockIsAPlainRound) {
  LoopHarness harness(SmallRequest());
  harness.draft.on_advance = [](const DraftAdvance&, DraftReplyBlock& reply) {
    reply.block = {};
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftEmpty), 30u);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kPolicyZero), 1u);
}

TEST(SpeculationLoop, ADraftThatLostThePrefixGetsItAgain) {
  LoopHarness harness(SmallRequest());
  int advances = 0;
  uint32_t keep_after = 99;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
    ++advances;
    if (advances == 3) keep_after = advance.prefix.keep;
    if (advances == 2) {
      reply.status = DraftReplyBlock::Status::kNeedPrefix;
      reply.held = 2;
      reply.block = {};
    }
    return DraftDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftStale), 1u);
  EXPECT_EQ(keep_after, 2u);
}

TEST(SpeculationLoop, AnUnreachableDraftIsTriedAgainWithBackOff) {
  LoopHarness harness(SmallRequest());
  harness.draft.unreachable = true;
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftLost), 30u);
  EXPECT_EQ(harness.ending->times.draft, absl::ZeroDuration());
}

TEST(SpeculationLoop, ADraftThatDoesNotFitIsNeverUsed) {
  LoopHarness harness(SmallRequest());
  harness.draft.refuses = true;
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(harness.draft.opens, 1);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftRefused), 30u);
}

// Of the verdicts that were applied, and of no others.
TEST(SpeculationLoop, TheRecordSumsBatchesAndTheWaitForTheDevice) {
  LoopHarness harness(SmallRequest(4));
  uint32_t steps = 0;
  harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    ++steps;
    reply.pass_rows = 20;
    reply.pass_sequences = 5;
    reply.queued = absl::Milliseconds(2);
    if (steps == 3) reply.status = VerifyReply::Status::kInternal;
    return TargetDo::kAnswer;
  };
  harness.Start();
  harness.Run();
  ExpectSound(harness);
  const AcceptanceCounts& counts = harness.ending->counts;
  EXPECT_EQ(counts.rounds + 1, steps) << "one was answered by a fault and sent again";
  EXPECT_EQ(counts.batch_rows, 20 * counts.rounds);
  EXPECT_EQ(counts.batch_sequences, 5 * counts.rounds);
  EXPECT_EQ(harness.ending->times.queue, absl::Milliseconds(2) * counts.rounds);
}

}  // namespace
}  // namespace tandem::orchestrator
