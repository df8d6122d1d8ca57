// The pool of targets shrinks and grows under load: nobody notices, and a new target has work
// within 10 s.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/load.h"
#include "tests/deploy/services.h"
#include "tests/support/wait.h"

namespace tandem::testing::scaling_test {
namespace {

using ::testing::IsEmpty;

constexpr int kClients = 16;
constexpr absl::Duration kUsedWithin = absl::Seconds(10);

TEST(ScalingTest, TwoThenOneThenThree) {
  const Services services(absl::Seconds(5));  // the default of --resolve-every
  Controller controller({services.targets, services.drafts, services.orchestrators});
  for (const char* deployment : {kTargets, kDrafts, kOrchestrators}) {
    ASSERT_TRUE(controller.WaitUntilSettled(deployment)) << deployment;
  }
  const std::vector<v1::GenerateRequest> requests = DeterministicRequests();
  Load load(services.address(), kClients, requests, UndisturbedIds(services.address(), requests));
  ASSERT_TRUE(load.WaitForMore(2 * kClients));
  EXPECT_TRUE(AllWork(controller, kTargets));

  controller.Scale(kTargets, 1);
  ASSERT_TRUE(controller.WaitUntilSettled(kTargets));
  const std::vector<PodView> rest = controller.ReadyPods(kTargets);
  ASSERT_EQ(rest.size(), 1u);
  const double before = WorkDone(rest[0]);
  EXPECT_TRUE(load.WaitForMore(4 * kClients));  // all of it at the one that is left
  EXPECT_GT(WorkDone(rest[0]), before);
  Say(absl::StrCat("one target: ", load.SoFar().Text()));

  controller.Scale(kTargets, 3);
  ASSERT_TRUE(WaitUntil([&] { return controller.Pods(kTargets).size() == 4; }));
  const auto times = TimesToWork(controller, kTargets);
  EXPECT_EQ(times.size(), 2u);
  for (const auto& [pod, after] : times) EXPECT_LT(after, kUsedWithin) << pod;
  EXPECT_TRUE(controller.WaitUntilSettled(kTargets));
  EXPECT_EQ(controller.ReadyPods(kTargets).size(), 3u);
  EXPECT_TRUE(load.WaitForMore(4 * kClients));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_THAT(result.troubles, IsEmpty());
  EXPECT_THAT(controller.Problems(), IsEmpty());
}

}  // namespace
}  // namespace tandem::testing::scaling_test
