// Growth is seen, and noise is not taken for it: the control of the soak tests.
#include "tests/soak/memory_watch.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

TEST(MemoryWatchTest, SlopeOfALineAndOfNoise) {
  std::vector<MemorySample> line, noise;
  for (int i = 0; i < 10; ++i) {
    line.push_back({i * 30.0, 100 + 2.0 * i, 50, 3});  // 2 MiB each half minute
    noise.push_back({i * 30.0, 100 + (i % 2 == 0 ? 1.0 : -1.0), 50, 3});
  }
  EXPECT_NEAR(SlopePerMinute(line, &MemorySample::resident_mib), 4, 1e-9);
  EXPECT_NEAR(SlopePerMinute(line, &MemorySample::allocated_mib), 0, 1e-9);
  EXPECT_LT(std::abs(SlopePerMinute(noise, &MemorySample::resident_mib)), 0.2);
  EXPECT_EQ(SlopePerMinute({line[0]}, &MemorySample::resident_mib), 0);
}

TEST(MemoryWatchTest, ASampleSeesWhatIsAllocated) {
  const MemorySample before = SampleMemory();
  constexpr size_t kBytes = 20 << 20;
  std::vector<char> block(kBytes, 1);
  const MemorySample after = SampleMemory();
  EXPECT_GT(after.resident_mib, 1);
  EXPECT_GE(after.threads, 1);
  EXPECT_NEAR(after.allocated_mib - before.allocated_mib, 20, 1) << block[kBytes / 2];
}

}  // namespace
}  // namespace tandem::testing
