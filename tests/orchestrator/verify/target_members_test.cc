// Targets that come, leave and return while a pool is used. Those that are left alone:
// target_ejection_test.cc.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_guest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "a b (b)": the peers, those that are leaving in brackets.
std::string Members(PoolHarness& harness) {
  std::string all;
  for (const v1::Peer& peer : harness.pool().Peers()) {
    all += peer.leaving() ? "(" + peer.address() + ")" : peer.address();
  }
  return all;
}

TEST(TargetMembers, BeforeAnyAddressIsKnownTheMessagesSaySo) {
  PoolHarness harness(0);
  EXPECT_EQ(harness.pool().Ready().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(harness.pool().Ready().message()), HasSubstr("no address"));
  EXPECT_FALSE(harness.pool().welcome().has_value());
  auto guest = Come(harness);
  EXPECT_EQ(guest->Seek(), "no target");
  EXPECT_THAT(guest->result.reason, HasSubstr("no address"));

  harness.SetPeers("", {"tandem-target:50052: no such host", "other:50052: no such host"});
  for (const std::string& text :
       {std::string(harness.pool().Ready().message()), (guest->Seek(), guest->result.reason)}) {
    EXPECT_EQ(text, "tandem-target:50052: no such host; other:50052: no such host");
  }
  EXPECT_EQ(harness.pool().Ready().code(), absl::StatusCode::kUnavailable);
}

TEST(TargetMembers, AnAddressThatComesIsUsed) {
  PoolHarness harness(2);
  harness.SetPeers("a");
  harness.DeliverAll();
  harness.target(0).Kill();
  harness.DeliverAll();
  auto guest = Come(harness);
  EXPECT_EQ(guest->Seek(), "no target");
  harness.SetPeers("ba");
  EXPECT_EQ(Members(harness), "ba") << "in the list's order";
  harness.DeliverAll();
  EXPECT_GE(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "b");
}

TEST(TargetMembers, TheSameListChangesNothing) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  guest->Seek();
  for (int i = 0; i < 5; ++i) harness.SetPeers("ab");
  harness.SetPeers("ba");
  Reconnect(harness);
  EXPECT_EQ(Members(harness), "ba");
  EXPECT_EQ(harness.target(0).streams, 1);
  EXPECT_EQ(harness.target(1).streams, 1);
  EXPECT_THAT(guest->lost, ElementsAre());
}

TEST(TargetMembers, WhatRunsAtALeavingTargetRunsOnAndNothingNewGoesThere) {
  PoolHarness harness(3);
  TellLoad(harness, 1, 100);
  TellLoad(harness, 2, 100);
  std::vector<std::shared_ptr<Guest>> there;
  std::vector<std::shared_ptr<Guest>> elsewhere;
  for (int i = 0; i < 100 && there.size() < 2; ++i) {
    auto guest = Come(harness);
    (guest->Seek() == "a" ? there : elsewhere).push_back(guest);
  }
  ASSERT_EQ(there.size(), 2u);
  harness.SetPeers("bc");
  EXPECT_EQ(Members(harness), "bc(a)");
  std::vector<std::shared_ptr<Guest>> later;
  for (int i = 0; i < 20; ++i) {
    later.push_back(Come(harness));
    EXPECT_NE(later.back()->Seek(), "a") << "though it has the least to do";
  }
  Reconnect(harness);
  EXPECT_THAT(there[0]->lost, ElementsAre());
  EXPECT_EQ(there[0]->Seek(), "a");
  there[0]->session->Close();
  EXPECT_EQ(Members(harness), "bc(a)");
  EXPECT_TRUE(harness.target(0).open());
  there[1].reset();
  EXPECT_EQ(Members(harness), "bc") << "with its last sequence it is forgotten";
  EXPECT_FALSE(harness.target(0).open());
  Reconnect(harness);
  EXPECT_EQ(harness.target(0).streams, 1);
}

TEST(TargetMembers, OneThatIsBeingConnectedIsLeftAlone) {
  PoolHarness harness(2);
  harness.target(0).Kill();
  harness.DeliverAll();  // the back-off's timer is set
  harness.SetPeers("b");
  EXPECT_EQ(Members(harness), "b");
  harness.target(0).reachable = true;
  Reconnect(harness);
  EXPECT_EQ(harness.target(0).streams, 1);
}

TEST(TargetMembers, ALeavingTargetsStreamIsNotOpenedAgain) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const size_t at = guest->Seek() == "a" ? 0 : 1;
  harness.SetPeers(at == 0 ? "b" : "a");
  harness.target(at).Cut();
  Reconnect(harness);
  EXPECT_EQ(harness.target(at).streams, 1);
  EXPECT_EQ(guest->lost.size(), 1u);
  EXPECT_EQ(Members(harness), at == 0 ? "b" : "a");
  guest->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(guest->Seek(), at == 0 ? "b" : "a");
}

TEST(TargetMembers, ForWantOfAnyOtherALeavingTargetIsAsked) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const size_t at = guest->Seek() == "a" ? 0 : 1;
  const std::string name = at == 0 ? "a" : "b";
  harness.target(1 - at).Kill();
  harness.DeliverAll();
  harness.SetPeers(at == 0 ? "b" : "a");
  EXPECT_TRUE(harness.pool().Ready().ok());
  EXPECT_EQ(Come(harness)->Seek(), name);
  harness.target(1 - at).reachable = true;
  Reconnect(harness);
  EXPECT_NE(Come(harness)->Seek(), name);
}

TEST(TargetMembers, AnAddressThatReturnsIsAnOrdinaryOneAgain) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const size_t at = guest->Seek() == "a" ? 0 : 1;
  harness.SetPeers(at == 0 ? "b" : "a");
  harness.SetPeers("ab");
  EXPECT_EQ(Members(harness), "ab");
  TellLoad(harness, 1 - at, 100);
  EXPECT_EQ(Come(harness)->Seek(), at == 0 ? "a" : "b");
  EXPECT_EQ(harness.target(at).streams, 1) << "on its old stream";
  harness.target(at).Cut();
  Reconnect(harness);
  EXPECT_EQ(harness.target(at).streams, 2) << "which is opened again, too";
}

TEST(TargetMembers, AnAddressThatReturnsAfterItsStreamBrokeBeginsAnew) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  const size_t at = guest->Seek() == "a" ? 0 : 1;
  harness.SetPeers(at == 0 ? "b" : "a");
  harness.target(at).Cut();
  harness.SetPeers("ab");  // before anybody heard of it
  Reconnect(harness);
  EXPECT_EQ(Members(harness), "ab");
  EXPECT_EQ(harness.target(at).streams, 2);

  harness.SetPeers(at == 0 ? "b" : "a");
  Reconnect(harness);
  harness.SetPeers("ab");
  Reconnect(harness);
  EXPECT_EQ(Members(harness), "ab");
  EXPECT_EQ(harness.target(at).streams, 3);
}

TEST(TargetMembers, WhoWaitsForASlotHearsWhoReturnsAndWhoLeaves) {
  PoolHarness harness(2);
  TellLoad(harness, 1, 100);
  auto there = Come(harness);
  EXPECT_EQ(there->Seek(), "a");
  harness.SetPeers("b");
  harness.target(1).slots = 0;
  harness.target(1).Report();
  auto guest = Come(harness);
  EXPECT_EQ(guest->Seek(), "no slot") << "b is full, and worth waiting for";
  harness.SetPeers("ab");
  EXPECT_GE(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "a");

  PoolHarness alone(1);
  EXPECT_EQ(Come(alone)->Seek(), "a");
  alone.target(0).slots = 0;
  alone.target(0).Report();
  auto other = Come(alone);
  EXPECT_EQ(other->Seek(), "no slot");
  alone.SetPeers("");
  EXPECT_EQ(other->nudges, 1);
  EXPECT_EQ(other->Seek(), "no target");
}

// Between the end of its stream and the pool's noticing.
TEST(TargetMembers, AnAddressThatReturnsJustThenBeginsAnew) {
  struct Events final : VerifyEvents {
    void OnVerifyReady() override {}
    void OnSlotWanted() override {}
    void OnVerifyLost(base::Incarnation, std::string) override { on_lost(); }
    void OnVerdict(base::Incarnation, VerifyReply) override {}
    std::function<void()> on_lost;
  };
  PoolHarness harness(1);
  auto events = std::make_shared<Events>();
  auto session = harness.pool().NewSession(events, {});
  EXPECT_EQ(session->Seek().kind, SeekResult::Kind::kTarget);
  harness.SetPeers("");
  int returned = 0;
  events->on_lost = [&] {
    ++returned;
    harness.SetPeers("a");
  };
  harness.target(0).Cut();
  Reconnect(harness);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(Members(harness), "a");
  EXPECT_EQ(harness.target(0).streams, 2);
  EXPECT_TRUE(harness.pool().Ready().ok());
}

TEST(TargetMembers, TheLastWelcomeIsRemembered) {
  PoolHarness harness(2);
  harness.target(1).welcome.set_model_id("another");
  harness.target(1).reachable = false;
  harness.target(1).Cut();
  harness.DeliverAll();
  harness.SetPeers("");
  harness.DeliverAll();
  EXPECT_EQ(harness.pool().Ready().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(harness.pool().welcome().has_value()) << "requests are checked against it, and wait";
  EXPECT_EQ(harness.pool().welcome()->model_id(), "model");
  harness.target(1).reachable = true;
  harness.SetPeers("b");
  harness.DeliverAll();
  EXPECT_EQ(harness.pool().welcome()->model_id(), "another");
}

TEST(TargetMembers, MessagesHaveTheNameThatAnAddressComesFrom) {
  PoolHarness harness(1);
  harness.target(0).reachable = false;
  harness.pool().SetPeers({{{"a", "tandem-target:50052"}}, {}});
  harness.DeliverAll();
  EXPECT_THAT(std::string(harness.pool().Ready().message()),
              HasSubstr("the stream to target a (tandem-target:50052) ended"));
  EXPECT_EQ(harness.pool().Peers()[0].address(), "a");
  EXPECT_EQ(harness.pool().Peers()[0].name(), "tandem-target:50052");
}

}  // namespace
}  // namespace tandem::orchestrator
