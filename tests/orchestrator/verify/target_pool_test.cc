// Which session goes to which target, and who waits for what.
#include "orchestrator/verify/target_pool.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/pool_harness.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Seat::Kind;

// A session whose owner does nothing by itself.
struct Guest final : VerifyEvents, std::enable_shared_from_this<Guest> {
  void OnVerifyReady() override { ++nudges; }
  void OnVerifyLost(uint64_t incarnation, std::string) override { lost.push_back(incarnation); }
  void OnVerdict(uint64_t, VerifyReply) override {}

  // "a", "b", …: the target; else why there is none.
  std::string Seek() {
    seat = session->Seek();
    switch (seat.kind) {
      case Kind::kTarget:
        return seat.target.name;
      case Kind::kNoTarget:
        return "no target";
      case Kind::kNoSlot:
        return "no slot";
      case Kind::kUnfit:
        return "unfit";
    }
    return "";
  }
  // Opens a sequence there: a prompt of so many tokens.
  void Send(uint32_t tokens) {
    VerifyStep step;
    step.round = 1;
    step.setup.emplace();
    step.prefix.tokens.assign(tokens, 1);
    seat.target.pace->Submitted(tokens);
    session->Submit(seat.target.incarnation, std::move(step));
  }

  std::unique_ptr<VerifySession> session;
  Seat seat;
  int nudges = 0;
  std::vector<uint64_t> lost;
};

std::shared_ptr<Guest> Come(PoolHarness& harness, SessionNeeds needs = {}) {
  auto guest = std::make_shared<Guest>();
  guest->session = harness.pool().NewSession(guest, std::move(needs));
  return guest;
}

// What was cut is opened again, where it can be.
void Reconnect(PoolHarness& harness) {
  harness.DeliverAll();
  harness.timers.Advance(absl::Seconds(3));
  harness.DeliverAll();
}

void TellLoad(PoolHarness& harness, size_t target, uint32_t queued_rows) {
  harness.target(target).queued_rows = queued_rows;
  harness.target(target).Report();
}

TEST(TargetPool, TheShorterQueueIsChosen) {
  PoolHarness harness(2);
  TellLoad(harness, 0, 40);
  TellLoad(harness, 1, 30);
  auto first = Come(harness);
  EXPECT_EQ(first->Seek(), "b");
  first->Send(15);  // 45 now, as far as we know
  auto second = Come(harness);
  EXPECT_EQ(second->Seek(), "a");
  EXPECT_EQ(second->Seek(), "a") << "a session stays where it is";
  TellLoad(harness, 1, 0);
  auto third = Come(harness);
  EXPECT_EQ(third->Seek(), "b") << "the report counts what was sent before it";
}

TEST(TargetPool, EqualQueuesAreToldApartBySequences) {
  PoolHarness harness(2);
  std::vector<std::shared_ptr<Guest>> guests;
  int at_a = 0;
  for (int i = 0; i < 8; ++i) {
    guests.push_back(Come(harness));
    at_a += guests.back()->Seek() == "a" ? 1 : 0;
  }
  EXPECT_EQ(at_a, 4);
}

TEST(TargetPool, ALostTargetIsLeftAndAnotherOneTaken) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const size_t at = guest->Seek() == "a" ? 0 : 1;
  const uint64_t incarnation = guest->seat.target.incarnation;
  harness.target(at).Kill();
  harness.DeliverAll();
  EXPECT_THAT(guest->lost, ElementsAre(incarnation));
  guest->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(guest->Seek(), at == 0 ? "b" : "a");
  EXPECT_NE(guest->seat.target.incarnation, incarnation);
  harness.target(1 - at).Kill();
  harness.DeliverAll();
  EXPECT_EQ(guest->Seek(), "no target") << "even when nobody told it to leave";
  EXPECT_THAT(guest->seat.reason, HasSubstr("cut"));
  EXPECT_FALSE(harness.pool().Ready().ok());
  harness.target(at).reachable = true;
  Reconnect(harness);
  EXPECT_EQ(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), at == 0 ? "a" : "b");
  EXPECT_TRUE(harness.pool().Ready().ok());
}

TEST(TargetPool, ATargetThatDrainsTakesNobodyUntilItsStreamEnds) {
  PoolHarness harness(2);
  auto first = Come(harness);
  const std::string draining = first->Seek();
  const std::string other = draining == "a" ? "b" : "a";
  first->session->Leave(LeaveCause::kDraining, absl::ZeroDuration());
  EXPECT_EQ(first->Seek(), other);
  std::vector<std::shared_ptr<Guest>> guests;
  for (int i = 0; i < 6; ++i) {
    guests.push_back(Come(harness));
    EXPECT_EQ(guests.back()->Seek(), other);
  }
  // For want of any other it is asked, though.
  const size_t at = other == "a" ? 0 : 1;
  harness.target(at).Kill();
  harness.DeliverAll();
  first->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(first->Seek(), draining);
  // A new stream begins anew.
  harness.target(at).reachable = true;
  harness.target(1 - at).Cut();
  Reconnect(harness);
  int at_draining = 0;
  for (int i = 0; i < 6; ++i) {
    guests.push_back(Come(harness));
    at_draining += guests.back()->Seek() == draining ? 1 : 0;
  }
  EXPECT_GE(at_draining, 1);
}

TEST(TargetPool, AFaultPrefersAnotherOneForThatSessionOnly) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const std::string faulty = guest->Seek();
  for (int i = 0; i < 3; ++i) {
    guest->session->Leave(LeaveCause::kFault, absl::ZeroDuration());
    EXPECT_EQ(guest->Seek() == faulty, i % 2 == 1) << "to and fro";
  }
  auto other = Come(harness);
  other->Seek();
  auto third = Come(harness);
  third->Seek();
  EXPECT_TRUE(other->seat.target.name == faulty || third->seat.target.name == faulty);

  PoolHarness alone(1);
  auto lonely = Come(alone);
  EXPECT_EQ(lonely->Seek(), "a");
  lonely->session->Leave(LeaveCause::kFault, absl::ZeroDuration());
  EXPECT_EQ(lonely->Seek(), "a");
}

TEST(TargetPool, ATextGoesOnWithItsModelOnly) {
  PoolHarness harness(2);
  harness.target(1).welcome.set_model_id("another");
  harness.target(1).Cut();
  Reconnect(harness);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Come(harness, {.model_id = "model"})->Seek(), "a");
  for (int i = 0; i < 8; ++i) EXPECT_EQ(Come(harness, {.model_id = "another"})->Seek(), "b");
  auto guest = Come(harness, {.model_id = "model"});
  EXPECT_EQ(guest->Seek(), "a");
  harness.target(0).Kill();
  harness.DeliverAll();
  EXPECT_EQ(guest->Seek(), "no target") << "its own may come back";
  harness.target(0).welcome.set_model_id("third");
  harness.target(0).reachable = true;
  Reconnect(harness);
  EXPECT_EQ(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "unfit");
  EXPECT_THAT(guest->seat.reason, HasSubstr("target a has model third"));
}

TEST(TargetPool, TheSameNumericsArePreferred) {
  PoolHarness harness(3);
  harness.target(0).welcome.set_numerics_id("other");
  harness.target(0).Cut();
  Reconnect(harness);
  TellLoad(harness, 1, 50);
  TellLoad(harness, 2, 60);
  std::vector<std::shared_ptr<Guest>> guests;
  for (int i = 0; i < 8; ++i) {
    guests.push_back(Come(harness, {.model_id = "model", .numerics_id = "numerics"}));
    EXPECT_EQ(guests.back()->Seek(), "b") << "though a has nothing to do";
  }
  harness.target(1).Kill();
  harness.target(2).Kill();
  harness.DeliverAll();
  guests[0]->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(guests[0]->Seek(), "a") << "none is left";
}

// ---- the line ----

// A pool of one target that has said that it has `slots` free ones.
struct Full {
  explicit Full(uint32_t slots = 0) : harness(1) {
    Come(harness)->Seek();  // the pool sees the stream
    harness.target(0).slots = slots;
    harness.target(0).Report();
  }
  PoolHarness harness;
};

TEST(TargetPool, TheLineIsByPriorityThenArrival) {
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

TEST(TargetPool, WhoeverLeavesTheLineIsNotServed) {
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

TEST(TargetPool, ASequenceThatEndsGivesItsSlotToTheFirstOfTheLine) {
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

TEST(TargetPool, WithoutAnyReportOneTriesWhenTheTimeIsOver) {
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

TEST(TargetPool, ASessionThatIsTooLargeForTheFreeSlotsHoldsUpNobody) {
  Full full(3);
  auto large = Come(full.harness);
  EXPECT_EQ(large->Seek(), "a");
  full.harness.target(0).Report();  // it has slots still, but had none for this one
  large->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(200));
  EXPECT_EQ(large->Seek(), "no slot");
  EXPECT_EQ(Come(full.harness)->Seek(), "a");
  full.harness.target(0).Report();
  EXPECT_EQ(large->nudges, 0) << "no report of free slots sends it there at once again";
  full.harness.timers.Advance(absl::Milliseconds(400));
  EXPECT_EQ(large->nudges, 1);
  EXPECT_EQ(large->Seek(), "a");
}

TEST(TargetPool, AFullTargetSendsToAnotherOne) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const std::string full = guest->Seek();
  guest->session->Leave(LeaveCause::kNoSlot, absl::Milliseconds(50));
  EXPECT_EQ(guest->Seek(), full == "a" ? "b" : "a");
}

TEST(TargetPool, WhoWaitsForASlotHearsThatTheTargetIsGone) {
  Full full;
  auto guest = Come(full.harness);
  EXPECT_EQ(guest->Seek(), "no slot");
  full.harness.target(0).Kill();
  full.harness.DeliverAll();
  EXPECT_EQ(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "no target");
}

TEST(TargetPool, PeersAreDescribedInTheFlagsOrder) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  guest->Seek();
  const size_t at = guest->seat.target.name == "a" ? 0 : 1;
  TellLoad(harness, at, 17);
  harness.target(1 - at).Kill();
  harness.DeliverAll();
  const std::vector<v1::Peer> peers = harness.pool().Peers();
  ASSERT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers[0].address(), "a");
  EXPECT_EQ(peers[1].address(), "b");
  EXPECT_TRUE(peers[at].ready());
  EXPECT_EQ(peers[at].load().queued_rows(), 17u);
  EXPECT_EQ(peers[at].sequences(), 1u);
  EXPECT_EQ(peers[at].welcome().model_id(), "model");
  EXPECT_FALSE(peers[1 - at].ready());
  EXPECT_THAT(peers[1 - at].problem(), HasSubstr("cut"));
  EXPECT_EQ(peers[1 - at].welcome().model_id(), "model") << "its last one";
  EXPECT_EQ(harness.pool().welcome()->model_id(), "model");
}

}  // namespace
}  // namespace tandem::orchestrator
