#include "orchestrator/verify/target_health.h"

#include <memory>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator::target_health_test {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));

struct World {
  std::shared_ptr<TargetPace> pace = std::make_shared<TargetPace>();
  TargetHealth health{pace, Ejection(absl::Seconds(10), absl::Seconds(60), /*seed=*/1)};
};

TEST(TargetHealth, SoManyFaultsWithNoGoodVerdictBetween) {
  World world;
  EXPECT_FALSE(world.health.Fault());
  EXPECT_FALSE(world.health.Fault());
  world.pace->Good();
  EXPECT_FALSE(world.health.Fault());
  EXPECT_FALSE(world.health.Fault());
  EXPECT_TRUE(world.health.Fault());
  EXPECT_EQ(world.health.faults(), TargetHealth::kFaultsInARow);
  EXPECT_TRUE(world.health.Eject(kNow));
  EXPECT_TRUE(world.health.Ejected(kNow));
  const concurrency::Instant over = world.health.until();
  EXPECT_FALSE(world.health.Ejected(over));
  EXPECT_TRUE(world.health.Fault()) << "it has done nothing good since";
}

TEST(TargetHealth, AGoodVerdictEndsAnEjectionANewStreamDoesNot) {
  World world;
  EXPECT_TRUE(world.health.Eject(kNow));
  world.pace->Good();  // the old stream's
  world.health.StreamBegan(kNow);
  EXPECT_TRUE(world.health.Ejected(kNow));
  world.pace->Good();
  EXPECT_FALSE(world.health.Ejected(kNow));
  EXPECT_EQ(world.health.ejections(), 1u);
  EXPECT_TRUE(world.health.Eject(kNow)) << "it was over";
  EXPECT_EQ(world.health.ejections(), 2u);
}

TEST(TargetHealth, TheOldStreamsVerdictsCountForOneThatIsNotEjected) {
  World world;
  EXPECT_FALSE(world.health.Fault());
  EXPECT_FALSE(world.health.Fault());
  world.pace->Good();
  world.health.StreamBegan(kNow);
  EXPECT_FALSE(world.health.Fault()) << "one in a row";
}

}  // namespace
}  // namespace tandem::orchestrator::target_health_test
