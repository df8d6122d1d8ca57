// What the small Kubernetes calls a problem: the control of the tests beside this one, which expect
// none.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/services.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PodsTest, APodThatDoesNotEndInTimeIsAProblem) {
  DeploymentSpec spec = Services(absl::Seconds(1)).drafts;
  spec.min_ready = absl::ZeroDuration();
  spec.replicas = 1;
  spec.pod.pre_stop = absl::Minutes(1);
  spec.pod.termination_grace = absl::Milliseconds(100);
  Controller controller({spec});
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  controller.Scale(kDrafts, 0);
  ASSERT_TRUE(controller.WaitUntilSettled(kDrafts));
  EXPECT_THAT(controller.Problems(), ElementsAre(HasSubstr("did not end within")));
}

}  // namespace
}  // namespace tandem::testing
