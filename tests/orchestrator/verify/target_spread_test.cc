// Requests are spread evenly over any number of targets, by one orchestrator and by many that do
// not know of each other.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_guest.h"

namespace tandem::orchestrator {
namespace {

// Where the next one goes, given how many each has.
using Way = std::function<size_t(const std::vector<int>& counts)>;

std::vector<int> Spread(int sessions, size_t targets, const Way& way) {
  std::vector<int> counts(targets);
  for (int i = 0; i < sessions; ++i) ++counts[way(counts)];
  return counts;
}

bool Even(const std::vector<int>& counts, int mean, int tolerance) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](int count) { return std::abs(count - mean) <= tolerance; });
}

size_t TheFirst(const std::vector<int>&) { return 0; }

// Each sees the same reports, and nothing of what the others have just sent.
TEST(TargetSpread, OfManyOrchestratorsByTheSameReports) {
  constexpr size_t kTargets = 4;
  uint64_t seed = 0;
  const Way pool = [&](const std::vector<int>&) {
    PoolHarness harness(kTargets, {}, {.seed = 1000 + seed++});
    TellLoad(harness, 0, 10);
    for (size_t i = 1; i < kTargets; ++i) TellLoad(harness, i, 11);
    return static_cast<size_t>(Come(harness)->Seek()[0] - 'a');
  };
  const std::vector<int> counts = Spread(200, kTargets, pool);
  EXPECT_TRUE(Even({counts[1], counts[2], counts[3]}, 33, 20));
  EXPECT_LT(counts[0], 140) << "the least loaded one is not run over";
  EXPECT_GT(counts[0], 60) << "and gets the most";
  const Way min = TheFirst;  // all choose the one with the shortest queue
  EXPECT_GE(Spread(200, kTargets, min)[0], 140);
}

}  // namespace
}  // namespace tandem::orchestrator
