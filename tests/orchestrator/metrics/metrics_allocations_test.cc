// A round costs the metrics no allocation.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/metrics/orchestrator_metrics.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/allocations.h"

namespace tandem::orchestrator {
namespace {

// The control: keeps a number of its own of each round.
class Allocating final : public RoundObserver {
 public:
  void OnDecided(const RoundRecord& round) override {
    numbers_.emplace_back(new uint32_t(round.number));
  }

 private:
  std::vector<std::unique_ptr<uint32_t>> numbers_;
};

// Of a whole request, from its start to its end.
int64_t AllocationsOf(HarnessOptions options) {
  LoopHarness harness(SmallRequest(4), std::move(options));
  const int64_t before = testing::Allocations();
  harness.Start();
  harness.Run();
  const int64_t after = testing::Allocations();
  EXPECT_TRUE(harness.ending->status.ok());
  EXPECT_GT(harness.ending->counts.rounds, 10u);
  return after - before;
}

TEST(MetricsAllocations, NoneForARound) {
  AllocationsOf({});  // what a process allocates once
  const int64_t nobody = AllocationsOf({});
  EXPECT_GT(nobody, 100) << "they are counted";

  OrchestratorMetrics metrics;
  std::unique_ptr<RequestObserver> request;
  HarnessOptions watched;
  watched.watch = [&](const testing::FakeClock& clock) {
    request = metrics.Watcher()({clock.Now(), ""});
    return request->WatchSample(0);
  };
  EXPECT_EQ(AllocationsOf(watched), nobody);
  EXPECT_GT(metrics.totals().rounds, 10u) << "they were watched";

  HarnessOptions control;
  control.watch = [](const testing::FakeClock&) { return std::make_unique<Allocating>(); };
  EXPECT_GT(AllocationsOf(control), nobody);
}

}  // namespace
}  // namespace tandem::orchestrator
