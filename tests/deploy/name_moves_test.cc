// The only pod of a service breaks down, another one begins elsewhere: its address is used within
// 10 s after the name resolves to it, by requests that run all the while.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/load.h"
#include "tests/deploy/services.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::IsEmpty;

constexpr absl::Duration kUsedWithin = absl::Seconds(10);

class NameMovesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(NameMovesTest, TheNewAddressIsUsedWithinTenSeconds) {
  const std::string moved = GetParam();
  Services services(absl::Seconds(5));  // the default of --resolve-every
  for (DeploymentSpec* spec : {&services.targets, &services.drafts, &services.orchestrators}) {
    spec->replicas = 1;
    spec->min_ready = absl::ZeroDuration();
  }
  Controller controller({services.targets, services.drafts, services.orchestrators});
  for (const char* deployment : {kTargets, kDrafts, kOrchestrators}) {
    ASSERT_TRUE(controller.WaitUntilSettled(deployment)) << deployment;
  }
  const std::vector<v1::GenerateRequest> requests = DeterministicRequests();
  Load load(services.address(), 4, requests, UndisturbedIds(services.address(), requests));
  ASSERT_TRUE(load.WaitForMore(10));
  ASSERT_TRUE(AllWork(controller, moved));
  const std::string before = controller.ReadyPods(moved)[0].address;
  controller.BreakDown(moved);
  ASSERT_TRUE(WaitUntil([&] { return controller.Pods(moved).size() == 2; }));
  const auto times = TimesToWork(controller, moved);
  ASSERT_EQ(times.size(), 1u);
  EXPECT_LT(times.begin()->second, kUsedWithin);
  EXPECT_NE(controller.ReadyPods(moved)[0].address, before);
  EXPECT_TRUE(load.WaitForMore(10));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_THAT(result.troubles, IsEmpty());
  EXPECT_THAT(controller.Problems(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Services, NameMovesTest, ::testing::Values(kTargets, kDrafts),
                         [](const auto& tested) {
                           return std::string(tested.param == kTargets ? "Target" : "Draft");
                         });

}  // namespace
}  // namespace tandem::testing
