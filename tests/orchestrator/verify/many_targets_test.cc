// Whole requests over several targets that fail, fill up and come back: the ids are those that a
// target alone gives, and whoever was not concerned notices nothing.
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/pool_harness.h"
#include "tests/orchestrator/verify/pool_texts.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using Do = WireTarget::Do;

TEST(ManyTargets, RequestsAreSpreadAndTheDeathOfATargetMovesThem) {
  for (double temperature : {0.0, 1.0}) {
    PoolHarness harness(2);
    std::vector<PoolHarness::Request*> requests;
    for (uint64_t i = 0; i < 8; ++i) requests.push_back(&harness.Add(Text(i, 40, temperature)));
    harness.Run([&] { return requests[0]->output().size() >= 10; });
    EXPECT_EQ(harness.target(0).opened, 4);
    EXPECT_EQ(harness.target(1).opened, 4);
    harness.target(0).Kill();
    harness.Run();
    uint32_t replays = 0;
    for (auto* request : requests) {
      ExpectRight(*request);
      replays += request->ending->counts.target_replays;
    }
    EXPECT_EQ(replays, 4u) << "those that were there, once each";
    EXPECT_EQ(harness.target(1).opened, 8);
  }
}

TEST(ManyTargets, ATargetThatDrainsFinishesWhatItHasAndGetsNothingNew) {
  PoolHarness harness(2);
  auto& old = harness.Add(Text(1, 400));
  harness.Run([&] { return old.output().size() >= 5; });
  const size_t at = harness.target(0).opened > 0 ? 0 : 1;
  WireTarget& draining = harness.target(at);
  const std::vector<uint64_t> held = draining.sequences();
  int refused = 0;
  draining.on_step = [&](const internal::v1::Step& step, internal::v1::Verdict& verdict) {
    if (step.sequence() == held[0]) return Do::kAnswer;
    ++refused;
    verdict.Clear();
    verdict.set_sequence(step.sequence());
    verdict.set_round(step.round());
    verdict.set_status(internal::v1::STATUS_DRAINING);
    return Do::kAnswer;
  };
  harness.target(1 - at).queued_rows = 1000;  // so that all would prefer the draining one
  std::vector<PoolHarness::Request*> requests;
  harness.target(1 - at).Report();
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back(&harness.Add(Text(i + 10)));
    harness.Run([&] { return !requests.back()->output().empty(); });
  }
  harness.Run();
  ExpectRight(old);
  EXPECT_EQ(old.ending->counts.target_replays, 0u);
  for (auto* request : requests) ExpectRight(*request);
  EXPECT_EQ(refused, 1) << "one has learnt it for all";
}

// Drops the request's Steps from its fourth round on, at one target, once.
struct Deaf {
  explicit Deaf(WireTarget& target) {
    target.on_step = [this](const internal::v1::Step& step, internal::v1::Verdict&) {
      if (dropped == 0 && step.round() == 4) dropped = step.sequence();
      return step.sequence() == dropped ? Do::kDrop : Do::kAnswer;
    };
  }
  uint64_t dropped = 0;
};

TEST(ManyTargets, AWatchdogMovesItsRequestElsewhere) {
  PoolHarness harness(2);
  Deaf deaf_a(harness.target(0));
  auto& a = harness.Add(Text(1, 60));
  auto& b = harness.Add(Text(2, 60));
  auto& c = harness.Add(Text(3, 600));
  auto& d = harness.Add(Text(4, 600));
  harness.Run();
  uint32_t replays = 0;
  for (auto* request : {&a, &b, &c, &d}) {
    ExpectRight(*request);
    replays += request->ending->counts.target_replays;
  }
  EXPECT_EQ(replays, 1u);
  EXPECT_EQ(harness.target(0).opened, 2);
  EXPECT_EQ(harness.target(1).opened, 3);
  EXPECT_EQ(harness.target(0).streams, 1);
}

TEST(ManyTargets, AStreamThatIsSilentAsAWholeIsGivenUp) {
  PoolHarness harness(2);
  auto& first = harness.Add(Text(1));
  auto& second = harness.Add(Text(2));
  harness.Run([&] { return first.output().size() >= 5; });
  harness.target(0).on_step = [](const internal::v1::Step&, internal::v1::Verdict&) {
    return Do::kDrop;
  };
  harness.Run();
  ExpectRight(first);
  ExpectRight(second);
  EXPECT_EQ(harness.target(1).streams, 1);
  EXPECT_GE(harness.target(0).streams, 2);
  EXPECT_EQ(harness.target(1).opened, 2);
}

// The cost curve says 20 ms per pass. The first pass of a process may take seconds all the same,
// and a later one that is lost is found soon.
TEST(ManyTargets, ATargetThatHasJustBegunIsGivenSecondsForItsFirstStep) {
  PoolHarness harness(1);
  WireTarget& target = harness.target(0);
  target.cost_curve = {{1, 20'000}};
  std::vector<int> lost = {1, 30};  // Steps without a verdict
  concurrency::Instant lost_at;
  std::vector<absl::Duration> waited;
  target.on_step = [&](const internal::v1::Step&, internal::v1::Verdict&) {
    if (waited.size() < lost.size() && target.steps == lost[waited.size()] + 1) {
      waited.push_back(harness.clock.Now() - lost_at);
    }
    if (waited.size() == lost.size() || target.steps != lost[waited.size()]) return Do::kAnswer;
    lost_at = harness.clock.Now();
    return Do::kDrop;
  };
  auto& request = harness.Add(Text(1, 60));
  harness.Run();
  ExpectRight(request);
  ASSERT_EQ(waited.size(), 2u);
  EXPECT_GE(waited[0], absl::Seconds(5));
  EXPECT_GE(waited[1], absl::Milliseconds(500));
  EXPECT_LT(waited[1], absl::Seconds(1));
}

// It computes for others, or on a long prompt: it reports, and has no verdict yet.
TEST(ManyTargets, ATargetThatReportsPassesIsNotEjected) {
  PoolHarness harness(1);
  WireTarget& target = harness.target(0);
  target.on_step = [&](const internal::v1::Step&, internal::v1::Verdict&) {
    return target.steps == 20 ? Do::kDrop : Do::kAnswer;
  };
  auto& request = harness.Add(Text(1, 60));
  harness.Run([&] { return target.steps == 20; });
  for (int i = 0; i < 8 && target.steps == 20; ++i) {
    harness.timers.Advance(absl::Milliseconds(100));
    target.Report();
    harness.DeliverAll();
  }
  EXPECT_EQ(target.steps, 20) << "the report gave the Step its time again";
  harness.Run();
  ExpectRight(request);
  EXPECT_EQ(target.streams, 1) << "it was not given up";
  EXPECT_EQ(harness.pool().Peers()[0].ejections(), 0u);
}

// ---- slots ----

TEST(ManyTargets, RequestsWaitForSlotsInTheirOrder) {
  PoolHarness harness(1);
  harness.target(0).slots = 1;
  std::vector<std::pair<PoolHarness::Request*, uint32_t>> requests;
  auto& holder = harness.Add(Text(1, 30));
  harness.Run([&] { return !holder.output().empty(); });
  for (uint32_t priority : {0u, 3u, 9u, 3u}) {
    GenerationRequest text = Text(10 + requests.size(), 20);
    text.priority = priority;
    requests.emplace_back(&harness.Add(text), priority);
  }
  std::vector<uint32_t> ended;
  harness.Run([&] {
    for (auto& [request, priority] : requests) {
      if (request == nullptr || !request->ending.has_value()) continue;
      ExpectRight(*request);
      EXPECT_GT(request->ending->times.slot, absl::Milliseconds(200));
      EXPECT_LE(request->ending->times.slot, request->ending->times.verify);
      EXPECT_EQ(request->ending->counts.target_replays, 0u);
      ended.push_back(priority);
      request = nullptr;
    }
    return ended.size() == requests.size();
  });
  ExpectRight(holder);
  EXPECT_EQ(holder.ending->times.slot, absl::ZeroDuration());
  EXPECT_THAT(ended, ElementsAre(9, 3, 3, 0));
  EXPECT_EQ(harness.target(0).overruled, 0) << "the reports told when to try";
}

TEST(ManyTargets, AWaitForASlotEndsWithItsTarget) {
  PoolHarness harness(1);
  harness.target(0).slots = 1;
  auto& holder = harness.Add(Text(1, 100));
  harness.Run([&] { return !holder.output().empty(); });
  GenerationRequest text = Text(2);
  text.deadline = harness.clock.Now() + absl::Seconds(5);
  auto& waiting = harness.Add(text);
  const concurrency::Instant began = harness.clock.Now();
  harness.Run([&] { return harness.clock.Now() - began > absl::Milliseconds(500); });
  harness.target(0).Kill();
  harness.Run();
  EXPECT_EQ(waiting.ending->status.code(), absl::StatusCode::kDeadlineExceeded)
      << "it did not miss a slot, it missed a target: " << waiting.ending->status;
  EXPECT_GE(waiting.ending->times.slot, absl::Milliseconds(500));
  EXPECT_LT(waiting.ending->times.slot, absl::Seconds(1));
  EXPECT_EQ(holder.ending->status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::orchestrator
