// Targets that can be reached and are broken all the same: they are left alone for a while.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_guest.h"
#include "tests/orchestrator/verify/pool_texts.h"

namespace tandem::orchestrator::target_ejection_test {
namespace {

using ::testing::ElementsAre;
using Do = WireTarget::Do;

// Longer than a back-off: a broken stream is up again meanwhile.
constexpr TargetPoolOptions kLong = {absl::Seconds(10), absl::Seconds(60), 5};

v1::Peer PeerAt(PoolHarness& harness, size_t target) { return harness.pool().Peers()[target]; }

// A newcomer goes to `at`, and fails there.
void Fault(PoolHarness& harness, const std::string& at) {
  auto guest = Come(harness);
  ASSERT_EQ(guest->Seek(), at);
  guest->session->Leave(LeaveCause::kFault, absl::ZeroDuration());
}

// Two targets, of which newcomers prefer the first.
struct Two {
  explicit Two(TargetPoolOptions pool = {.seed = 5}) : harness(2, {}, pool) { Prefer(); }
  void Prefer() {
    TellLoad(harness, 0, 0);
    TellLoad(harness, 1, 500);
  }
  PoolHarness harness;
};

TEST(TargetEjection, ThreeFaultsInARowOfWhicheverSessions) {
  Two two;
  Fault(two.harness, "a");
  Fault(two.harness, "a");
  EXPECT_EQ(PeerAt(two.harness, 0).ejections(), 0u);
  Fault(two.harness, "a");
  EXPECT_TRUE(PeerAt(two.harness, 0).ejected());
  EXPECT_TRUE(PeerAt(two.harness, 0).ready());
  EXPECT_EQ(PeerAt(two.harness, 0).ejections(), 1u);
  EXPECT_FALSE(PeerAt(two.harness, 1).ejected());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Come(two.harness)->Seek(), "b");

  two.harness.timers.Advance(absl::Seconds(2));
  two.Prefer();
  EXPECT_FALSE(PeerAt(two.harness, 0).ejected());
  Fault(two.harness, "a");
  EXPECT_TRUE(PeerAt(two.harness, 0).ejected()) << "it has done nothing good since";
  EXPECT_EQ(PeerAt(two.harness, 0).ejections(), 2u);
}

TEST(TargetEjection, ThoseThatAreThereStayAndTheirGoodVerdictsEndIt) {
  Two two(kLong);
  auto resident = Come(two.harness);
  EXPECT_EQ(resident->Seek(), "a");
  for (int i = 0; i < 3; ++i) Fault(two.harness, "a");
  EXPECT_EQ(Come(two.harness)->Seek(), "b");
  EXPECT_THAT(resident->lost, ElementsAre());
  EXPECT_EQ(resident->Seek(), "a");
  resident->result.target.pace->Good();
  EXPECT_FALSE(PeerAt(two.harness, 0).ejected());
  EXPECT_EQ(Come(two.harness)->Seek(), "a");
}

TEST(TargetEjection, AWatchdogEjectsAtOnceAndAWelcomeEndsNothing) {
  Two two(kLong);
  auto guest = Come(two.harness);
  auto other = Come(two.harness);
  EXPECT_EQ(guest->Seek(), "a");
  EXPECT_EQ(other->Seek(), "a");
  const base::Incarnation incarnation = guest->result.target.incarnation;
  guest->session->GiveUp(incarnation, "no verdict");
  other->session->GiveUp(incarnation, "no verdict");
  guest->session->Leave(LeaveCause::kLost, absl::ZeroDuration());
  EXPECT_EQ(guest->Seek(), "b");
  other->result.target.pace->Good();  // it was read before
  Reconnect(two.harness);
  EXPECT_EQ(two.harness.target(0).streams, 2);
  two.Prefer();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Come(two.harness)->Seek(), "b");
  EXPECT_TRUE(PeerAt(two.harness, 0).ready());
  EXPECT_TRUE(PeerAt(two.harness, 0).ejected());
  EXPECT_EQ(PeerAt(two.harness, 0).ejections(), 1u) << "it was the same stream";
  two.harness.client(0).pace()->Good();
  EXPECT_EQ(Come(two.harness)->Seek(), "a");
}

TEST(TargetEjection, AStreamIsGivenUpOnce) {
  Two two;
  auto guest = Come(two.harness);
  auto other = Come(two.harness);
  EXPECT_EQ(guest->Seek(), "a");
  EXPECT_EQ(other->Seek(), "a");
  guest->session->GiveUp(guest->result.target.incarnation, "no verdict");
  two.harness.timers.Advance(absl::Seconds(5));  // the ejection is over before the stream has ended
  other->session->GiveUp(other->result.target.incarnation, "no verdict");
  EXPECT_EQ(PeerAt(two.harness, 0).ejections(), 1u);
}

TEST(TargetEjection, WhenAllAreEjectedTheFirstToBeBackIsUsed) {
  Two two(kLong);
  for (const std::string name : {"a", "b"}) {
    auto guest = Come(two.harness);
    EXPECT_EQ(guest->Seek(), name);
    guest->session->GiveUp(guest->result.target.incarnation, "no verdict");
    Reconnect(two.harness);
  }
  TellLoad(two.harness, 0, 500);
  TellLoad(two.harness, 1, 0);
  EXPECT_TRUE(PeerAt(two.harness, 0).ejected() && PeerAt(two.harness, 1).ejected());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Come(two.harness)->Seek(), "a");
  two.harness.target(0).Kill();
  two.harness.DeliverAll();
  EXPECT_EQ(Come(two.harness)->Seek(), "b");
}

// The other one is full, and worth waiting for.
TEST(TargetEjection, WhenItIsOverTheLineIsServed) {
  Two two(kLong);
  for (int i = 0; i < 3; ++i) Fault(two.harness, "a");
  auto guest = Come(two.harness);
  EXPECT_EQ(guest->Seek(), "b");
  two.harness.target(1).slots = 0;
  guest->session->Leave(LeaveCause::kNoSlot, absl::Seconds(1));  // the line's own rhythm
  two.harness.target(1).Report();
  EXPECT_EQ(guest->Seek(), "no slot");
  const concurrency::Instant began = two.harness.clock.Now();
  for (int i = 0; i < 2000 && PeerAt(two.harness, 0).ejected(); ++i) {
    EXPECT_EQ(guest->nudges, 0);
    if (i % 50 == 0) two.harness.target(1).Report();  // it stays full
    two.harness.timers.Advance(absl::Milliseconds(10));
  }
  EXPECT_GE(two.harness.clock.Now() - began, absl::Seconds(8));
  EXPECT_EQ(guest->nudges, 1);
  EXPECT_EQ(guest->Seek(), "a");
}

// ---- whole requests ----

// Requests one after the other, at two targets of which the first is broken: how often one had to
// begin anew elsewhere.
uint32_t Replays(PoolHarness& harness) {
  uint32_t replays = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    auto& request = harness.Add(Text(i, 20));
    harness.Run([&] { return request.ending.has_value(); });
    ExpectRight(request);
    replays += request.ending->counts.target_replays;
  }
  return replays;
}

Do Hang(const internal::v1::Step&, internal::v1::Verdict&) { return Do::kDrop; }
Do Fail(const internal::v1::Step&, internal::v1::Verdict& verdict) {
  verdict.clear_entries();
  verdict.set_status(internal::v1::STATUS_INTERNAL);
  return Do::kAnswer;
}
// Answered in time, and not to be used.
Do AnswerNonsense(const internal::v1::Step&, internal::v1::Verdict& verdict) {
  verdict.clear_entries();
  return Do::kAnswer;
}

TEST(TargetEjection, ABrokenTargetCostsFewRequestsTheirTime) {
  for (const auto& broken : {Hang, Fail, AnswerNonsense}) {
    PoolHarness harness(2);
    harness.target(0).on_step = broken;
    const uint32_t with = Replays(harness);
    EXPECT_GE(with, 1u);
    EXPECT_LE(with, 9u);
    EXPECT_GE(PeerAt(harness, 0).ejections(), 1u);
    EXPECT_EQ(PeerAt(harness, 1).ejections(), 0u);

    PoolHarness control(2, {}, {absl::Nanoseconds(1), absl::Nanoseconds(1), 5});
    control.target(0).on_step = broken;
    EXPECT_GE(Replays(control), 12u) << "without ejection every other one is hit";
  }
}

}  // namespace
}  // namespace tandem::orchestrator::target_ejection_test
