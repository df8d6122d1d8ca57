// Which session goes to which target. Who waits for a slot: target_line_test.cc.
#include "orchestrator/verify/target_pool.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_guest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const base::Incarnation incarnation = guest->result.target.incarnation;
  harness.target(at).Kill();
  harness.DeliverAll();
  EXPECT_THAT(guest->lost, ElementsAre(incarnation));
  guest->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(guest->Seek(), at == 0 ? "b" : "a");
  EXPECT_NE(guest->result.target.incarnation, incarnation);
  harness.target(1 - at).Kill();
  harness.DeliverAll();
  EXPECT_EQ(guest->Seek(), "no target") << "even when nobody told it to leave";
  EXPECT_THAT(guest->result.reason, HasSubstr("cut"));
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
  const size_t at = faulty == "a" ? 0 : 1;
  TellLoad(harness, 1 - at, 500);
  guest->session->Leave(LeaveCause::kFault, absl::ZeroDuration());
  EXPECT_NE(guest->Seek(), faulty) << "though the other one is busy";
  EXPECT_EQ(Come(harness)->Seek(), faulty) << "it has failed nobody else";
  TellLoad(harness, at, 1000);
  guest->session->Leave(LeaveCause::kFault, absl::ZeroDuration());
  EXPECT_EQ(guest->Seek(), faulty) << "the last fault counts";

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
  EXPECT_THAT(guest->result.reason, HasSubstr("target a has model third"));
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

TEST(TargetPool, PeersAreDescribedInTheFlagsOrder) {
  PoolHarness harness(2);
  auto guest = Come(harness);
  guest->Seek();
  const size_t at = guest->result.target.name == "a" ? 0 : 1;
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
