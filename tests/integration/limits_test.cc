// What a full, a stopping and a resumed orchestrator do with requests.
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {263, 793, 286};

TEST(Limits, OneRequestTooManyIsRefusedAndTheNextOneServed) {
  ClusterOptions options = DemoOptions();
  options.max_active_requests = 1;
  options.max_waiting_requests = 0;
  InProcessCluster cluster(std::move(options));
  const v1::GenerateRequest request = GreedyRequest(kPrompt, 900, 4);
  Reply second;
  bool asked = false;
  const Reply first = Send(cluster.channel(), request, [&](const Reply&) {
    if (!std::exchange(asked, true)) second = Send(cluster.channel(), request);
  });
  ASSERT_TRUE(asked);
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(second.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status.message(), HasSubstr("1 requests are active, which is the most"));
  const Reply third = Send(cluster.channel(), request);
  EXPECT_TRUE(third.status.ok()) << third.status;
  EXPECT_EQ(third.ids, first.ids);
}

TEST(Limits, RequestsWaitForASlotAndAllAreServed) {
  ClusterOptions options = DemoOptions();
  options.max_sequences = 1;
  InProcessCluster cluster(std::move(options));
  const std::vector<v1::GenerateRequest> requests(6, GreedyRequest(kPrompt, 40, 3));
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 6);
  for (const Reply& reply : replies) {
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, replies[0].ids);
  }
  EXPECT_EQ(replies[0].ids.size(), 40u);
  EXPECT_TRUE(cluster.AllFreed());
}

TEST(Limits, AStoppingOrchestratorEndsWhatRunsWithAClearStatus) {
  InProcessCluster cluster(DemoOptions());
  std::thread drain;
  const Reply running =
      Send(cluster.channel(), GreedyRequest(kPrompt, 900, 2), [&](const Reply& so_far) {
        if (so_far.ids.empty() || drain.joinable()) return;
        drain = std::thread([&] { cluster.orchestrator().Drain(absl::ZeroDuration()); });
      });
  drain.join();
  EXPECT_EQ(running.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(running.status.message(), HasSubstr("output_prefix_ids"));
  const Reply late = Send(cluster.channel(), GreedyRequest(kPrompt, 5, 2));
  EXPECT_EQ(late.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(late.status.message(), HasSubstr("shutting down"));
  EXPECT_TRUE(cluster.AllFreed());
}

TEST(Limits, AResumedRequestGoesOnWithTheSameIds) {
  InProcessCluster cluster(DemoOptions());
  const Reply whole = Send(cluster.channel(), GreedyRequest(kPrompt, 60, 4));
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  ASSERT_EQ(whole.ids.size(), 60u);
  for (size_t had : {1u, 17u, 59u}) {
    v1::GenerateRequest request = GreedyRequest(kPrompt, 60, 4);
    request.mutable_output_prefix_ids()->Add(whole.ids.begin(), whole.ids.begin() + had);
    const Reply rest = Send(cluster.channel(), request);
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    EXPECT_EQ(rest.ids, std::vector<uint32_t>(whole.ids.begin() + had, whole.ids.end())) << had;
  }
}

}  // namespace
}  // namespace tandem::testing
