// A draft that is there, and never answers again: another takes its place in mid-request, and no
// token of the text changes by it.
#include <algorithm>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

// Long enough that many rounds come after the silence.
GenerationRequest Request(acceptance::Rule rule, double temperature) {
  GenerationRequest request = SmallRequest(4, temperature);
  request.rule = rule;
  request.max_tokens = 1500;
  return request;
}

// The first draft answers `answers` Advances and then none, and so on for each but the last.
void SilenceAfter(LoopHarness& harness, int answers, int others) {
  harness.draft.others = others;
  harness.draft.on_advance = [&harness, answers, others](const DraftAdvance& advance,
                                                         DraftReplyBlock&) {
    const bool last = harness.draft.opens > others;
    return !last && advance.round > static_cast<uint64_t>(answers) ? FakeDraft::Do::kDrop
                                                                   : FakeDraft::Do::kAnswer;
  };
}

TEST(SilentDraft, IsReplacedAndTheTextIsTheTargetsOwn) {
  for (acceptance::Rule rule : {acceptance::Rule::kGreedy, acceptance::Rule::kCoupled}) {
    LoopHarness harness(Request(rule, rule == acceptance::Rule::kGreedy ? 0 : 1));
    SilenceAfter(harness, 3, 2);
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    EXPECT_EQ(harness.draft.opens, 3) << "each silent one was given up, the last one kept";
    EXPECT_EQ(harness.ending->counts.draft_reconnections, 2u);
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_GT(harness.plain_rounds(PlainCause::kDraftLate), 0u) << "rounds went on meanwhile";
    EXPECT_GT(harness.draft.submitted, 20);
  }
}

// What the test above measures: without an end of the patience the first draft is kept for ever.
TEST(SilentDraft, NegativeControlIsKeptWhereSilenceMayBeLong) {
  HarnessOptions options;
  options.loop.draft_silence = absl::Hours(1);
  LoopHarness harness(Request(acceptance::Rule::kGreedy, 0), options);
  SilenceAfter(harness, 3, 2);
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.draft.opens, 1);
  EXPECT_EQ(harness.draft.submitted, 3);
  EXPECT_EQ(harness.output(), harness.PlainIds());
}

// And that a wrong token would show.
TEST(SilentDraft, NegativeControlATextWithAnotherTokenIsAnother) {
  LoopHarness harness(Request(acceptance::Rule::kGreedy, 0));
  SilenceAfter(harness, 3, 2);
  int steps = 0;
  harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
    if (++steps == 100) {
      for (acceptance::Entry& entry : reply.entries) {
        if (entry.next_token.has_value()) entry.next_token = (*entry.next_token + 1) % 8;
      }
    }
    return FakeTarget::Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  EXPECT_NE(harness.output(), harness.PlainIds());
}

TEST(SilentDraft, OneThatNeverGreetsIsReplaced) {
  LoopHarness harness(Request(acceptance::Rule::kGreedy, 0));
  harness.draft.others = 1;
  harness.draft.silent_open = true;
  harness.Start();
  while (!harness.ending.has_value()) {
    ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
    // The next one, before it is opened.
    if (harness.target.steps > 150) harness.draft.silent_open = false;
  }
  EXPECT_EQ(harness.draft.opens, 2);
  EXPECT_EQ(harness.ending->counts.draft_reconnections, 1u);
  EXPECT_EQ(harness.output(), harness.PlainIds());
}

// Its answers take 1 s: eight of those are more than the silence that is granted at the least.
TEST(SilentDraft, ASlowOneIsGivenEightOfItsUsualTimes) {
  HarnessOptions options;
  options.loop.draft_silence = absl::Milliseconds(300);
  for (bool stops : {false, true}) {
    LoopHarness harness(Request(acceptance::Rule::kGreedy, 0), options);
    harness.draft.others = 1;
    int held = 0;
    concurrency::Instant due = concurrency::Instant::InfiniteFuture();
    concurrency::Instant stopped = concurrency::Instant::InfiniteFuture();
    harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
      if (harness.draft.opens > 1) return FakeDraft::Do::kAnswer;
      if (stops && ++held > 3) {
        stopped = std::min(stopped, harness.clock.Now());
        return FakeDraft::Do::kDrop;
      }
      due = harness.clock.Now() + absl::Milliseconds(250);
      return FakeDraft::Do::kHold;
    };
    harness.Start();
    concurrency::Instant replaced = concurrency::Instant::InfiniteFuture();
    while (!harness.ending.has_value()) {
      if (harness.clock.Now() >= due) {
        due = concurrency::Instant::InfiniteFuture();
        harness.draft.ReleaseHeld();
      }
      ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
      if (harness.draft.opens > 1) replaced = std::min(replaced, harness.clock.Now());
    }
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_EQ(harness.draft.opens, stops ? 2 : 1);
    if (!stops) continue;
    EXPECT_GE(replaced - stopped, absl::Seconds(2));
    EXPECT_LE(replaced - stopped, absl::Seconds(3));
  }
}

// A long prompt may take its time to be read.
TEST(SilentDraft, ALongPrefixIsGivenLonger) {
  for (bool long_prompt : {false, true}) {
    GenerationRequest request = Request(acceptance::Rule::kGreedy, 0);
    if (long_prompt) request.prompt.resize(1024, 3);
    LoopHarness harness(request);
    harness.draft.others = 1;
    concurrency::Instant asked = concurrency::Instant::InfiniteFuture();
    harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
      if (harness.draft.opens > 1) return FakeDraft::Do::kAnswer;
      asked = harness.clock.Now();
      return FakeDraft::Do::kDrop;
    };
    harness.Start();
    while (harness.draft.opens < 2) {
      ASSERT_FALSE(harness.ending.has_value());
      ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
    }
    const absl::Duration silence = harness.clock.Now() - asked;
    EXPECT_GE(silence, absl::Seconds(long_prompt ? 10 : 2));
    EXPECT_LE(silence, absl::Seconds(long_prompt ? 11 : 3));
  }
}

TEST(SilentDraft, OneAloneIsTriedAgainAfterABackOff) {
  LoopHarness harness(Request(acceptance::Rule::kGreedy, 0));
  harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
    return harness.draft.opens < 3 ? FakeDraft::Do::kDrop : FakeDraft::Do::kAnswer;
  };
  harness.Start();
  while (!harness.ending.has_value()) {
    if (harness.timers.next_due() <= harness.clock.Now()) harness.FireNextTimer();
    ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
  }
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.draft.opens, 3);
  EXPECT_GT(harness.ending->counts.accepted_tokens, 0u);
  EXPECT_EQ(harness.output(), harness.PlainIds());
}

}  // namespace
}  // namespace tandem::orchestrator
