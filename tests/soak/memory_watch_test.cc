#include "tests/soak/memory_watch.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

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

TEST(MemoryWatchTest, TableHasTheFirstAndTheLast) {
  std::vector<MemorySample> samples;
  for (int i = 0; i <= 100; ++i) samples.push_back({static_cast<double>(i), 1, 1, 1});
  const std::string table = ToTable(samples, 3);
  EXPECT_THAT(table, HasSubstr("       0            1.0"));
  EXPECT_THAT(table, HasSubstr("      50            1.0"));
  EXPECT_THAT(table, HasSubstr("     100            1.0"));
  EXPECT_THAT(ToTable({samples[7]}, 3), HasSubstr("       7 "));
}

}  // namespace
}  // namespace tandem::testing
