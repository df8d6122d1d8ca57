// Who waits for a slot, and who gets it.
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_guest.h"

namespace tandem::orchestrator {
namespace {

// A pool of one target that has said that it has `slots` free ones.
struct Full {
  explicit Full(uint32_t slots = 0) : harness(1) {
    Come(harness)->Seek();  // the pool sees the stream
    harness.target(0).slots = slots;
    harness.target(0).Report();
  }
  PoolHarness harness;
};

TEST(TargetLine, TheLineIsByPriorityThenArrival) {
  Full full;
  PoolHarness& harness = full.harness;
  auto low = Come(harness);
  auto second = Come(harness, {.priority = 5});
  auto third = Come(harness, {.priority = 5});
  auto highest = Come(harness, {.priority = 10});
  // Asked in another order than they came.
  for (auto& guest : {third, low, second, highest}) EXPECT_EQ(guest->Seek(), "no slot");
  EXPECT_EQ(harness.pool().waiting_sessions(), 4u);
  harness.target(0).slots = 2;
  harness.target(0).Report();
  EXPECT_EQ(highest->nudges, 1);
  EXPECT_EQ(second->nudges, 1);
  EXPECT_EQ(third->nudges, 0);
  EXPECT_EQ(low->nudges, 0);
  EXPECT_EQ(highest->Seek(), "a");
  EXPECT_EQ(second->Seek(), "a");
  EXPECT_EQ(third->Seek(), "no slot");
  // A newcomer stands behind those of its priority, though a slot gets free just now.
  auto late = Come(harness, {.priority = 5});
  harness.target(0).slots = 1;
  harness.target(0).Report();
  EXPECT_EQ(late->Seek(), "no slot");
  EXPECT_EQ(third->Seek(), "a");
  EXPECT_EQ(harness.pool().waiting_sessions(), 2u);
}

TEST(TargetLine, WhoeverLeavesTheLineIsNotServed) {
  Full full;
  auto first = Come(full.harness);
  auto second = Come(full.harness);
  auto third = Come(full.harness);
  for (auto& guest : {first, second, third}) EXPECT_EQ(guest->Seek(), "no slot");
  first->session->Close();
  second->session.reset();
  EXPECT_EQ(full.harness.pool().waiting_sessions(), 1u);
  full.harness.target(0).slots = 1;
  full.harness.target(0).Report();
  EXPECT_EQ(first->nudges + second->nudges, 0);
  EXPECT_EQ(third->Seek(), "a");
}

TEST(TargetLine, ASequenceThatEndsGivesItsSlotToTheFirstOfTheLine) {
  Full full(1);
  auto holder = Come(full.harness);
  EXPECT_EQ(holder->Seek(), "a");
  auto first = Come(full.harness);
  auto second = Come(full.harness);
  EXPECT_EQ(first->Seek(), "no slot");
  EXPECT_EQ(second->Seek(), "no slot");
  holder->session->Close();
  EXPECT_EQ(first->nudges, 1);
  EXPECT_EQ(second->nudges, 0);
  EXPECT_EQ(first->Seek(), "a");
}

TEST(TargetLine, WithoutAnyReportOneTriesWhenTheTimeIsOver) {
  PoolHarness harness(1);
  auto refused = Come(harness);
  auto second = Come(harness);
  EXPECT_EQ(refused->Seek(), "a");
  refused->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(200));
  EXPECT_EQ(refused->Seek(), "no slot");
  EXPECT_EQ(second->Seek(), "no slot");
  harness.timers.Advance(absl::Milliseconds(199));
  EXPECT_EQ(refused->nudges + second->nudges, 0);
  harness.timers.Advance(absl::Milliseconds(300));
  EXPECT_EQ(refused->nudges, 1);
  EXPECT_EQ(refused->Seek(), "a");
}

// It comes to its room, because those behind it wait.
TEST(TargetLine, ASessionThatFindsNoRoomIsNotOvertaken) {
  Full full(3);
  auto large = Come(full.harness);
  EXPECT_EQ(large->Seek(), "a");
  full.harness.target(0).Report();  // it has slots still, but had none for this one
  large->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(200));
  EXPECT_EQ(large->Seek(), "no slot");
  auto behind = Come(full.harness);
  EXPECT_EQ(behind->Seek(), "no slot");
  auto before = Come(full.harness, {.priority = 1});
  EXPECT_EQ(before->Seek(), "a") << "a higher priority goes first";
  full.harness.target(0).Report();
  EXPECT_EQ(large->nudges, 0) << "no report of free slots sends it there at once again";
  full.harness.timers.Advance(absl::Milliseconds(400));
  EXPECT_EQ(large->nudges, 1);
  EXPECT_EQ(large->Seek(), "a");
  EXPECT_EQ(behind->nudges, 1);
  EXPECT_EQ(behind->Seek(), "a");
}

TEST(TargetLine, WhoGivesUpWaitingForRoomLetsThoseBehindItGoOn) {
  Full full(3);
  auto large = Come(full.harness);
  EXPECT_EQ(large->Seek(), "a");
  full.harness.target(0).Report();
  large->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(200));
  EXPECT_EQ(large->Seek(), "no slot");
  auto behind = Come(full.harness);
  EXPECT_EQ(behind->Seek(), "no slot");
  large->session->Close();
  EXPECT_EQ(behind->nudges, 1);
  EXPECT_EQ(behind->Seek(), "a");
}

// With reports of room nobody is sent where there is none, but for one that asks now and then.
TEST(TargetLine, RoomIsCountedAndOneAsksForIt) {
  Full full(8);
  PoolHarness& harness = full.harness;
  WireTarget& target = harness.target(0);
  target.room = 1000;
  target.Report();
  auto first = Come(harness, {.length = 684});  // and 16 for a block
  auto second = Come(harness, {.length = 184});
  auto third = Come(harness, {.length = 184});
  auto fourth = Come(harness, {.length = 4});
  EXPECT_EQ(first->Seek(), "a");
  EXPECT_EQ(second->Seek(), "a");
  EXPECT_EQ(third->Seek(), "a") << "it asks, so that the target knows of it";
  EXPECT_EQ(fourth->Seek(), "no slot") << "the answer is awaited";
  target.room = 100;  // what the two have left
  target.Report();
  EXPECT_EQ(fourth->nudges, 0);
  third->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(50));
  EXPECT_EQ(third->Seek(), "no slot");
  EXPECT_EQ(fourth->Seek(), "no slot") << "it needs 20 tokens alone, but it is behind";
  second->session->Close();
  EXPECT_EQ(third->nudges, 1) << "at once: there is room now";
  EXPECT_EQ(third->Seek(), "a");
  EXPECT_EQ(fourth->nudges, 1);
  EXPECT_EQ(fourth->Seek(), "a");
}

// The target keeps room for a sequence that it knows.
TEST(TargetLine, WhoAsksAgainIsTheSameSequence) {
  Full full(8);
  PoolHarness& harness = full.harness;
  WireTarget& target = harness.target(0);
  target.room = 1000;
  target.Report();
  target.slots = 0;
  std::vector<uint64_t> asked;
  target.on_step = [&](const internal::v1::Step& step, internal::v1::Verdict&) {
    asked.push_back(step.sequence());
    return WireTarget::Do::kDrop;
  };
  auto holder = Come(harness, {.length = 900});
  EXPECT_EQ(holder->Seek(), "a");
  auto waiting = Come(harness, {.length = 800});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(waiting->Seek(), "a");
    EXPECT_EQ(harness.pool().Peers()[0].sequences(), 2u);
    waiting->Send(1);
    harness.DeliverAll();
    waiting->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(50));
    EXPECT_EQ(waiting->Seek(), "no slot");
    EXPECT_EQ(harness.pool().Peers()[0].sequences(), 1u) << "it has none there while it waits";
    harness.timers.Advance(absl::Milliseconds(100));
  }
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked, std::vector<uint64_t>(3, asked[0]));
}

TEST(TargetLine, AFullTargetSendsToAnotherOne) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const std::string full = guest->Seek();
  guest->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(50));
  EXPECT_EQ(guest->Seek(), full == "a" ? "b" : "a");
}

TEST(TargetLine, WhoWaitsForASlotHearsThatTheTargetIsGone) {
  Full full;
  auto guest = Come(full.harness);
  EXPECT_EQ(guest->Seek(), "no slot");
  full.harness.target(0).Kill();
  full.harness.DeliverAll();
  EXPECT_EQ(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "no target");
}

}  // namespace
}  // namespace tandem::orchestrator
