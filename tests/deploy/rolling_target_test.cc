// A roll-out of the targets under load, as Kubernetes does it: nobody notices. The large one is
// rolling_restart_test.cc.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/load.h"
#include "tests/deploy/services.h"

namespace tandem::testing {
namespace {

using ::testing::IsEmpty;

TEST(RollingTargetTest, TargetsAreReplacedUnderLoad) {
  Services services(absl::Seconds(1));
  services.drafts.replicas = 1;
  services.orchestrators.replicas = 1;
  Controller controller({services.targets, services.drafts, services.orchestrators});
  ASSERT_TRUE(controller.WaitUntilSettled(kOrchestrators));
  const std::vector<v1::GenerateRequest> requests = DeterministicRequests();
  Load load(services.address(), 4, requests, UndisturbedIds(services.address(), requests));
  ASSERT_TRUE(load.WaitForMore(10));
  controller.Roll(kTargets);
  EXPECT_TRUE(controller.WaitUntilSettled(kTargets));
  EXPECT_TRUE(AllWork(controller, kTargets));
  EXPECT_TRUE(load.WaitForMore(10));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_THAT(result.troubles, IsEmpty());
  EXPECT_THAT(controller.Problems(), IsEmpty());
  EXPECT_EQ(controller.Pods(kTargets).size(), 4u);
}

}  // namespace
}  // namespace tandem::testing
