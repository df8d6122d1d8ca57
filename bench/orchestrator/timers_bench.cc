// What the two alarms of a round cost, with 64 requests at once: as the loop has them (a long one
// leaves the real timer where it is), and as real timers that are set and cancelled each time.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/concurrency/system_clock.h"
#include "orchestrator/loop/strand_timers.h"

namespace tandem::orchestrator {
namespace {

constexpr int kRequests = 64;
constexpr absl::Duration kDraftDeadline = absl::Milliseconds(200);
constexpr absl::Duration kWatchdog = absl::Milliseconds(500);

void BM_Alarms(benchmark::State& state) {
  concurrency::SteadyClock clock;
  concurrency::ThreadTimers timers;
  std::vector<std::unique_ptr<StrandTimers>> alarms;
  for (int i = 0; i < kRequests; ++i) {
    // Nothing is run: the strands are this thread's.
    alarms.push_back(std::make_unique<StrandTimers>(
        timers, clock, [](std::function<void()>) {}, [](LoopTimer) {}));
  }
  size_t next = 0;
  for (auto _ : state) {
    StrandTimers& mine = *alarms[next++ % kRequests];
    mine.Set(LoopTimer::kDraftDeadline, kDraftDeadline);
    mine.Cancel(LoopTimer::kDraftDeadline);
    mine.Set(LoopTimer::kWatchdog, kWatchdog);
    mine.Cancel(LoopTimer::kWatchdog);
  }
}
BENCHMARK(BM_Alarms);

void BM_RealTimers(benchmark::State& state) {
  concurrency::ThreadTimers timers;
  const auto shared = std::make_shared<int>(0);
  auto function = [shared] { benchmark::DoNotOptimize(shared.get()); };
  std::vector<concurrency::TimerId> others;  // of the requests that are waiting
  for (int i = 0; i < kRequests; ++i) others.push_back(timers.After(absl::Hours(1), function));
  for (auto _ : state) {
    timers.Cancel(timers.After(kDraftDeadline, function));
    timers.Cancel(timers.After(kWatchdog, function));
  }
}
BENCHMARK(BM_RealTimers);

}  // namespace
}  // namespace tandem::orchestrator

BENCHMARK_MAIN();
