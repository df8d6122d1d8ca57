// The small Kubernetes itself: who is an endpoint, how pods end, and what it calls a problem.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/services.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeploymentSpec Drafts() {
  DeploymentSpec spec = Services(absl::Seconds(1)).drafts;
  spec.min_ready = absl::ZeroDuration();
  return spec;
}

TEST(PodsTest, ARollOutReplacesAllAndEveryoneEndsByHimself) {
  Controller controller({Drafts()});
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  ASSERT_EQ(controller.ReadyPods(kDrafts).size(), 2u);
  controller.Roll(kDrafts);
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  const std::vector<PodView> pods = controller.Pods(kDrafts);
  ASSERT_EQ(pods.size(), 4u);
  for (size_t i = 0; i < pods.size(); ++i) EXPECT_EQ(pods[i].gone, i < 2) << pods[i].name;
  controller.Scale(kDrafts, 1);
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  EXPECT_EQ(controller.ReadyPods(kDrafts).size(), 1u);
  EXPECT_THAT(controller.Problems(), IsEmpty());
}

TEST(PodsTest, APodThatDoesNotEndInTimeIsAProblem) {
  DeploymentSpec spec = Drafts();
  spec.replicas = 1;
  spec.pod.pre_stop = absl::Minutes(1);
  spec.pod.termination_grace = absl::Milliseconds(100);
  Controller controller({spec});
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  controller.Scale(kDrafts, 0);
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  EXPECT_THAT(controller.Problems(), ElementsAre(HasSubstr("did not end within")));
}

TEST(PodsTest, APodThatBreaksDownIsReplacedElsewhere) {
  DeploymentSpec spec = Drafts();
  spec.replicas = 1;
  Controller controller({spec});
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  controller.BreakDown(kDrafts);
  ASSERT_TRUE(WaitUntil([&] { return controller.Pods(kDrafts).size() == 2; }));
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  const std::vector<PodView> pods = controller.ReadyPods(kDrafts);
  ASSERT_EQ(pods.size(), 1u);
  EXPECT_NE(pods[0].address, controller.Pods(kDrafts)[0].address);
}

}  // namespace
}  // namespace tandem::testing
