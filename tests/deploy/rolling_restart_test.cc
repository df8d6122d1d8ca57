// All three services are replaced under load, pod by pod, as Kubernetes does it: no request fails,
// every text is as on a quiet cluster, and every pod ends by itself. And what this test would say
// if it were otherwise.
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/load.h"
#include "tests/deploy/services.h"

namespace tandem::testing {
namespace {

using ::testing::IsEmpty;

constexpr int kClients = 16;
constexpr const char* kAll[] = {kTargets, kDrafts, kOrchestrators};

void WaitUntilReplaced(Controller& controller, Load& load, const char* deployment) {
  EXPECT_TRUE(controller.WaitUntilSettled(deployment)) << deployment;
  EXPECT_TRUE(AllWork(controller, deployment)) << deployment;
  Say(absl::StrCat(deployment, " is replaced: ", load.SoFar().Text()));
}

// Of these many begin at the very moment at which an orchestrator stops to take any.
std::vector<v1::GenerateRequest> ShortRequests() {
  std::vector<v1::GenerateRequest> requests = DeterministicRequests();
  for (v1::GenerateRequest& request : requests) {
    request.set_max_tokens(1);
    request.mutable_speculation()->set_fixed(0);
  }
  return requests;
}

TEST(RollingRestartTest, EachServiceAndThenAllAtOnce) {
  const Services services(absl::Seconds(1));
  Controller controller({services.targets, services.drafts, services.orchestrators});
  for (const char* deployment : kAll) ASSERT_TRUE(controller.WaitUntilSettled(deployment));
  const std::vector<v1::GenerateRequest> requests = DeterministicRequests();
  Load load(services.address(), kClients, requests, UndisturbedIds(services.address(), requests));
  ASSERT_TRUE(load.WaitForMore(2 * kClients));
  for (const char* deployment : kAll) {
    controller.Roll(deployment);
    WaitUntilReplaced(controller, load, deployment);
  }
  for (const char* deployment : kAll) controller.Roll(deployment);
  for (const char* deployment : kAll) WaitUntilReplaced(controller, load, deployment);
  EXPECT_TRUE(load.WaitForMore(2 * kClients));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(result.wrong, 0u);
  EXPECT_THAT(result.troubles, IsEmpty());
  EXPECT_GT(result.replays, 0u);  // requests did move
  EXPECT_GT(result.reconnections, 0u);
  EXPECT_THAT(controller.Problems(), IsEmpty());
  for (const char* deployment : kAll) {
    EXPECT_EQ(controller.Pods(deployment).size(), 6u) << deployment;
  }
}

TEST(RollingRestartTest, ShortRequestsWhileOrchestratorsLeave) {
  Services services(absl::Seconds(1));
  services.orchestrators.min_ready = absl::ZeroDuration();
  services.orchestrators.pod.flags.push_back("--drain-delay=200ms");
  Controller controller({services.targets, services.drafts, services.orchestrators});
  for (const char* deployment : kAll) ASSERT_TRUE(controller.WaitUntilSettled(deployment));
  const std::vector<v1::GenerateRequest> requests = ShortRequests();
  Load load(services.address(), kClients, requests, UndisturbedIds(services.address(), requests));
  for (int i = 0; i < 5; ++i) {
    controller.Roll(kOrchestrators);
    EXPECT_TRUE(controller.WaitUntilSettled(kOrchestrators));
    EXPECT_TRUE(AllWork(controller, kOrchestrators));
  }
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_THAT(result.troubles, IsEmpty());
  EXPECT_THAT(controller.Problems(), IsEmpty());
}

// One of each; what is changed comes from the test.
class ControlTest : public ::testing::Test {
 protected:
  ControlTest() : services_(absl::Seconds(1)) {
    for (DeploymentSpec* spec : {&services_.targets, &services_.drafts, &services_.orchestrators}) {
      spec->replicas = 1;
      spec->min_ready = absl::ZeroDuration();
    }
  }

  void Start() {
    controller_ = std::make_unique<Controller>(
        std::vector<DeploymentSpec>{services_.targets, services_.drafts, services_.orchestrators});
    for (const char* deployment : kAll) ASSERT_TRUE(controller_->WaitUntilSettled(deployment));
    requests_ = DeterministicRequests();
    expected_ = UndisturbedIds(services_.address(), requests_);
  }

  Services services_;
  std::unique_ptr<Controller> controller_;
  std::vector<v1::GenerateRequest> requests_;
  std::vector<std::vector<uint32_t>> expected_;
};

TEST_F(ControlTest, OtherIdsAreSeen) {
  Start();
  expected_[3].back() ^= 1;
  Load load(services_.address(), kClients, requests_, expected_);
  ASSERT_TRUE(load.WaitForMore(4 * kClients));
  const LoadResult result = load.Stop();
  EXPECT_EQ(result.failed, 0u);
  EXPECT_GT(result.wrong, 0u);
  EXPECT_LT(result.wrong, result.requests / 4);
}

TEST_F(ControlTest, RequestsThatAreCutOffAreSeen) {
  services_.orchestrators.pod.flags.push_back("--drain-delay=0s");
  services_.orchestrators.pod.flags.push_back("--grace=0s");
  Start();
  Load load(services_.address(), kClients, requests_, expected_);
  ASSERT_TRUE(load.WaitForMore(2 * kClients));
  controller_->Roll(kOrchestrators);
  EXPECT_TRUE(controller_->WaitUntilSettled(kOrchestrators));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_GT(result.failed, 0u);
  EXPECT_EQ(result.wrong, 0u);
}

TEST_F(ControlTest, RequestsThatAreNotSentAgainAreSeen) {
  services_.orchestrators.pod.flags.push_back("--drain-delay=0s");
  Start();
  requests_ = ShortRequests();
  expected_ = UndisturbedIds(services_.address(), requests_);
  Load load(services_.address(), kClients, requests_, expected_, Retries::kNone);
  for (int i = 0; i < 15 && load.SoFar().failed == 0; ++i) {
    controller_->Roll(kOrchestrators);
    EXPECT_TRUE(controller_->WaitUntilSettled(kOrchestrators));
  }
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_GT(result.failed, 0u);
  EXPECT_EQ(result.wrong, 0u);
}

TEST_F(ControlTest, AServiceThatIsGoneIsSeen) {
  services_.targets.max_unavailable = 1;
  services_.orchestrators.pod.flags.push_back("--target-patience=1s");
  Start();
  Load load(services_.address(), kClients, requests_, expected_);
  ASSERT_TRUE(load.WaitForMore(2 * kClients));
  controller_->Scale(kTargets, 0);
  EXPECT_TRUE(controller_->WaitUntilSettled(kTargets));
  EXPECT_TRUE(load.WaitForMore(kClients));
  const LoadResult result = load.Stop();
  Say(result.Text());
  EXPECT_GT(result.failed, 0u);
}

}  // namespace
}  // namespace tandem::testing
