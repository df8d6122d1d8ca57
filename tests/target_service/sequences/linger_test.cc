// Sequences that survive their stream.
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "common/concurrency/instant.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

class TargetLinger : public ::testing::Test {
 protected:
  static Options WithSlots(uint32_t slots) {
    Options options;
    options.max_sequences = slots;
    return options;
  }
  void Break(Harness::Stream& stream) {
    stream.session->OnDone(absl::CancelledError("cut"));
    target_.RunAll();
  }
  internal::v1::Step Replay(uint64_t sequence, uint64_t round,
                            const std::vector<uint32_t>& committed,
                            const std::vector<uint32_t>& candidates) {
    internal::v1::Step step = MakeStep(sequence, round, committed, 0, candidates);
    *step.mutable_options() = SampledOptions();
    return step;
  }

  Harness target_{WithSlots(3)};
};

TEST_F(TargetLinger, NothingHeldIsComputedAgain) {
  for (bool fenced : {false, true}) {
    auto old = target_.Connect(fenced ? "f" : "b", 1);
    target_.Ask(old, FirstStep(1, kPrompt, {1, 2, 3}));
    target_.Ask(old, FirstStep(2, kPrompt));
    if (!fenced) Break(old);
    auto next = target_.Connect(fenced ? "f" : "b", 2);
    target_.RunAll();
    if (fenced) {
      EXPECT_EQ(old.sink->closed()->code(), absl::StatusCode::kAborted);
    }
    EXPECT_EQ(target_.device->lingering_sequences(), 2u);

    // Two draft tokens stood, and another token came.
    std::vector<uint32_t> committed = kPrompt;
    committed.insert(committed.end(), {1, 2, 6});
    const int64_t rows = target_.model->rows();
    internal::v1::Verdict verdict = target_.Ask(next, Replay(1, 2, committed, {4}));
    EXPECT_TRUE(SameEntries(verdict, target_.Expected(SampledOptions(), committed, {4})));
    EXPECT_EQ(target_.model->rows() - rows, 2) << "the new token and the candidate";
    EXPECT_EQ(target_.device->lingering_sequences(), 1u);
    EXPECT_EQ(target_.device->active_sequences(), 2u);

    // The one that nobody came back for goes; the other stays.
    target_.WaitForLingering();
    EXPECT_EQ(target_.device->active_sequences(), 1u);
    EXPECT_EQ(target_.Ask(next, MakeStep(2, 2, kPrompt, 5)).status(),
              internal::v1::STATUS_NEED_PREFIX);
    next.session->OnHalfClose();
    target_.RunAll();
    EXPECT_EQ(target_.model->live_caches(), 0);
  }
}

TEST_F(TargetLinger, TheLogTellsWhoComesAndGoes) {
  std::vector<std::string> lines;
  const base::ScopedLogSink log(
      [&lines](const base::LogEntry& entry) { lines.emplace_back(entry.message); });
  auto broken = target_.Connect("a", 1);
  target_.Ask(broken, FirstStep(1, kPrompt));
  Break(broken);
  auto orderly = target_.Connect("the other", 7);
  target_.Ask(orderly, FirstStep(1, kPrompt));
  orderly.session->OnHalfClose();
  orderly.session->OnDone(absl::OkStatus());
  EXPECT_EQ(lines, (std::vector<std::string>{"client_up client=a incarnation=1",
                                             "client_gone client=a broken=true reason=cut",
                                             "client_up client=\"the other\" incarnation=7",
                                             "client_gone client=\"the other\" broken=false"}));
}

// The verdict was lost on its way, so its round comes again, under its number and in pieces.
TEST_F(TargetLinger, AReplayInPiecesOfARoundThatWasAnswered) {
  auto old = target_.Connect("a", 1);
  target_.Ask(old, FirstStep(1, kPrompt));
  ASSERT_EQ(target_.Ask(old, MakeStep(1, 5, kPrompt, 5, {{1, 2}})).status(),
            internal::v1::STATUS_OK);
  Break(old);
  auto next = target_.Connect("a", 2);
  const int64_t rows = target_.model->rows();
  internal::v1::Step piece = Replay(1, 4, {1, 2, 3}, {});
  piece.set_more(true);
  ASSERT_EQ(target_.Ask(next, piece).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.model->rows(), rows) << "all of it is held";
  internal::v1::Verdict verdict = target_.Ask(next, MakeStep(1, 5, kPrompt, 3, {{1, 2}}));
  EXPECT_EQ(target_.model->rows() - rows, 3) << "the last committed token and the candidates";
  EXPECT_TRUE(SameEntries(verdict, target_.Expected(SampledOptions(), kPrompt, {1, 2})));
  EXPECT_EQ(target_.Ask(next, MakeStep(1, 5, kPrompt, 5)).status(), internal::v1::STATUS_STALE)
      << "now it was answered here";
}

TEST_F(TargetLinger, OtherTextUnderTheSameNameIsComputed) {
  auto old = target_.Connect("a", 1);
  target_.Ask(old, FirstStep(1, kPrompt, {1, 2, 3}));
  Break(old);
  auto next = target_.Connect("a", 2);
  const std::vector<uint32_t> other = {1, 2, 7, 7, 0, 3};
  internal::v1::Verdict verdict = target_.Ask(next, Replay(1, 1, other, {4}));
  EXPECT_TRUE(SameEntries(verdict, target_.Expected(SampledOptions(), other, {4})));
}

TEST_F(TargetLinger, OtherClientsFindNothingOfIt) {
  auto old = target_.Connect("a", 1);
  target_.Ask(old, FirstStep(1, kPrompt));
  Break(old);
  auto other = target_.Connect("b", 2);
  const int64_t rows = target_.model->rows();
  EXPECT_EQ(target_.Ask(other, MakeStep(1, 2, kPrompt, 5)).status(),
            internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(target_.Ask(other, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.model->rows() - rows, 5);
}

TEST_F(TargetLinger, EndsAfterItsTime) {
  auto old = target_.Connect("a", 1);
  target_.Ask(old, FirstStep(1, kPrompt));
  Break(old);
  EXPECT_EQ(target_.device->next_expiry() - target_.clock.Now(), absl::Seconds(2));
  target_.clock.Advance(absl::Seconds(2) - absl::Nanoseconds(1));
  target_.RunAll();
  EXPECT_EQ(target_.model->live_caches(), 1);
  target_.clock.Advance(absl::Nanoseconds(1));
  target_.RunAll();
  EXPECT_EQ(target_.model->live_caches(), 0);
  EXPECT_EQ(target_.device->next_expiry(), concurrency::Instant::InfiniteFuture());
}

TEST_F(TargetLinger, ADroppedStepLeavesTheSequenceUsable) {
  auto old = target_.Connect("a", 1);
  target_.Ask(old, FirstStep(1, kPrompt));
  Harness::Send(old, {MakeStep(1, 2, kPrompt, 5, {{1, 2}})});
  old.session->OnDone(absl::CancelledError("cut"));
  const int64_t passes = target_.model->passes();
  target_.RunAll();
  EXPECT_EQ(target_.model->passes(), passes) << "no work is done for a broken stream";
  auto next = target_.Connect("a", 2);
  internal::v1::Verdict verdict = target_.Ask(next, Replay(1, 2, kPrompt, {1, 2}));
  EXPECT_TRUE(SameEntries(verdict, target_.Expected(SampledOptions(), kPrompt, {1, 2})));
}

TEST_F(TargetLinger, OldestGivesWayWhenASlotIsWanted) {
  auto first = target_.Connect("a", 1);
  target_.Ask(first, FirstStep(1, kPrompt));
  Break(first);
  target_.clock.Advance(absl::Milliseconds(500));
  auto second = target_.Connect("b", 1);
  target_.Ask(second, FirstStep(1, kPrompt));
  target_.Ask(second, FirstStep(2, kPrompt));
  Break(second);
  EXPECT_EQ(target_.device->load().free_slots(), 3u) << "what lingers is in nobody's way";

  auto third = target_.Connect("c", 1);
  ASSERT_EQ(target_.Ask(third, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.device->active_sequences(), 3u);
  auto back = target_.Connect("b", 2);
  const int64_t rows = target_.model->rows();
  EXPECT_EQ(target_.Ask(back, Replay(1, 2, kPrompt, {})).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.model->rows() - rows, 1) << "it was a's that went";
  // One slot is left, in which b's second lingers; then there is none.
  ASSERT_EQ(target_.Ask(third, FirstStep(2, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.Ask(third, FirstStep(3, kPrompt)).status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_EQ(target_.device->active_sequences(), 3u);
}

TEST_F(TargetLinger, GivesWayWhenRoomIsWanted) {
  testing::TableModelOptions model;
  model.max_caches = 2;
  Harness target({}, model);
  auto old = target.Connect("a", 1);
  target.Ask(old, FirstStep(1, kPrompt));
  target.Ask(old, FirstStep(2, kPrompt));
  old.session->OnDone(absl::CancelledError("cut"));
  auto other = target.Connect("b", 1);
  EXPECT_EQ(target.Ask(other, FirstStep(1, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target.Ask(other, FirstStep(2, kPrompt)).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target.Ask(other, FirstStep(3, kPrompt)).status(), internal::v1::STATUS_NO_SLOT);
}

TEST_F(TargetLinger, TwiceBroken) {
  auto first = target_.Connect("a", 1);
  target_.Ask(first, FirstStep(1, kPrompt));
  target_.Ask(first, FirstStep(2, kPrompt));
  Break(first);
  target_.clock.Advance(absl::Seconds(1));
  auto second = target_.Connect("a", 2);
  EXPECT_EQ(target_.Ask(second, Replay(1, 2, kPrompt, {})).status(), internal::v1::STATUS_OK);
  Break(second);
  // Both are still there; the second one has a second less.
  target_.clock.Advance(absl::Seconds(1));
  target_.RunAll();
  EXPECT_EQ(target_.model->live_caches(), 1);
  auto third = target_.Connect("a", 3);
  const int64_t rows = target_.model->rows();
  EXPECT_EQ(target_.Ask(third, Replay(1, 3, kPrompt, {})).status(), internal::v1::STATUS_OK);
  EXPECT_EQ(target_.model->rows() - rows, 1);
}

// Two streams of one client at the same time: the messages may overtake each other on their way
// here.
TEST_F(TargetLinger, AnOlderStreamThatComesLateIsEnded) {
  auto newer = target_.Connect("a", 7);
  target_.Ask(newer, FirstStep(1, kPrompt));
  auto sink = std::make_shared<RecordingSink>();
  target_.device->queue().Push(serving::StreamBegins<internal::v1::TargetReply>{
      target_.device->NewStreamId(), "a", base::Incarnation{6}, sink});
  target_.RunAll();
  ASSERT_TRUE(sink->closed().has_value());
  EXPECT_EQ(sink->closed()->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(target_.Ask(newer, MakeStep(1, 2, kPrompt, 5)).status(), internal::v1::STATUS_OK);
}

TEST_F(TargetLinger, NotAfterAnOrderlyEndNorABrokenProtocol) {
  auto orderly = target_.Connect("a");
  target_.Ask(orderly, FirstStep(1, kPrompt));
  orderly.session->OnHalfClose();
  orderly.session->OnDone(absl::CancelledError("cut while it ended"));
  auto wrong = target_.Connect("b");
  target_.Ask(wrong, FirstStep(1, kPrompt));
  wrong.session->OnMessage({});
  wrong.session->OnDone(absl::InvalidArgumentError("as told"));
  target_.RunAll();
  EXPECT_EQ(target_.model->live_caches(), 0);

  Options options;
  options.linger = absl::ZeroDuration();
  Harness off(options);
  auto stream = off.Connect();
  off.Ask(stream, FirstStep(1, kPrompt));
  stream.session->OnDone(absl::CancelledError("cut"));
  off.RunAll();
  EXPECT_EQ(off.model->live_caches(), 0);
}

}  // namespace
}  // namespace tandem::target_service
