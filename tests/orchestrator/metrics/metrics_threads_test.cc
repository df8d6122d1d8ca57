// Requests on several threads, and one that scrapes: every scrape agrees with itself.
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/metrics/orchestrator_metrics.h"
#include "tests/orchestrator/metrics/watched.h"

namespace tandem::orchestrator {
namespace {

constexpr int kThreads = 4;
constexpr int kRequestsEach = 200;

TEST(MetricsThreads, EveryScrapeAgreesWithItself) {
  OrchestratorMetrics metrics;
  std::vector<std::thread> threads;
  std::atomic<int> running = kThreads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRequestsEach; ++i) {
        GenerationRequest wanted = SmallRequest(static_cast<uint32_t>(i % 5), 1.0);
        wanted.seed = static_cast<uint64_t>(t * kRequestsEach + i);
        Watched request(metrics, std::move(wanted));
        if (i % 4 == 3) {
          request.harness->Start();
          request.harness->DeliverOne();
          request.harness->loop->OnCancel(absl::CancelledError("the client went away"));
          request.End();
        } else {
          EXPECT_TRUE(request.Run().status.ok());
        }
      }
      --running;
    });
  }
  testing::Scrape before = ScrapeOf(metrics);
  while (running > 0) {
    testing::Scrape after = ScrapeOf(metrics);
    EXPECT_TRUE(CheckFollows(before, after).ok());
    before = std::move(after);
  }
  for (std::thread& thread : threads) thread.join();
  const testing::Scrape last = ScrapeOf(metrics);
  EXPECT_EQ(last.Sum("tandem:request_success_total"), kThreads * kRequestsEach * 3 / 4);
  EXPECT_EQ(
      last.Value("tandem:request_failure_total", {{"code", "CANCELLED"}, {"cause", "client"}}),
      kThreads * kRequestsEach / 4);
  EXPECT_EQ(last.Value("tandem:num_requests_running"), 0);
}

}  // namespace
}  // namespace tandem::orchestrator
