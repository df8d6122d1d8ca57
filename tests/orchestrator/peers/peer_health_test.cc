#include "orchestrator/peers/peer_health.h"

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));

PeerHealth Healthy() {
  return PeerHealth(Ejection(absl::Seconds(10), absl::Seconds(60), /*seed=*/1));
}

TEST(PeerHealth, GoodWorkEndsAnEjection) {
  PeerHealth health = Healthy();
  EXPECT_FALSE(health.Ejected(kNow));
  EXPECT_TRUE(health.Look(3));
  EXPECT_FALSE(health.Look(3)) << "nothing new";
  EXPECT_TRUE(health.Eject(kNow));
  EXPECT_FALSE(health.Eject(kNow)) << "many see the same failure";
  EXPECT_EQ(health.ejections(), 1u);
  EXPECT_TRUE(health.Ejected(kNow, 3));
  EXPECT_FALSE(health.Ejected(kNow, 4)) << "even before anybody looked";
  EXPECT_TRUE(health.Look(4));
  EXPECT_FALSE(health.Ejected(kNow));
}

TEST(PeerHealth, TimeEndsAnEjectionAndTheNextOneIsLongerUntilItWorks) {
  PeerHealth health = Healthy();
  EXPECT_TRUE(health.Eject(kNow));
  const absl::Duration first = health.until() - kNow;
  EXPECT_GT(first, absl::Seconds(1));
  EXPECT_FALSE(health.Ejected(health.until()));
  concurrency::Instant now = health.until();
  EXPECT_TRUE(health.Eject(now));
  now = health.until();
  EXPECT_TRUE(health.Eject(now));
  const absl::Duration third = health.until() - now;
  EXPECT_GT(third, first);
  EXPECT_TRUE(health.Look(1));
  EXPECT_TRUE(health.Eject(now));
  EXPECT_LT(health.until() - now, third) << "the first again";
  EXPECT_EQ(health.ejections(), 4u);
}

TEST(PeerHealth, WorkThatIsDiscountedEndsNothing) {
  PeerHealth health = Healthy();
  EXPECT_TRUE(health.Eject(kNow));
  health.Discount(5);
  EXPECT_TRUE(health.Ejected(kNow, 5));
  EXPECT_FALSE(health.Look(5));
  EXPECT_TRUE(health.Ejected(kNow));
  EXPECT_TRUE(health.Look(6));
  EXPECT_FALSE(health.Ejected(kNow));
}

}  // namespace
}  // namespace tandem::orchestrator
