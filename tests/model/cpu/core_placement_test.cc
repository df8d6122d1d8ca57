#include "model/cpu/core_placement.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "model/cpu/thread_team.h"

namespace tandem::model::cpu {
namespace {

cpu_set_t CoresOfThisThread() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

// The thread goes to that core, and may use all of `cores` again.
void GoTo(int core, const cpu_set_t& cores) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(cores), &cores), 0);
}

// Member 0 goes from core to core. Linux may move it once more in the middle of a run, so some runs
// do not count.
TEST(CorePlacement, WorkersStayOffTheCoreOfMember0) {
  const cpu_set_t cores = CoresOfThisThread();
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores)) all.push_back(core);
  }
  if (all.size() < 2) GTEST_SKIP() << "this process may use one core only";
  ThreadTeam team(2);
  int core_of_0 = -1;
  cpu_set_t cores_of_1;
  auto look = [&](int member) {
    if (member == 0) {
      core_of_0 = sched_getcpu();
    } else {
      cores_of_1 = CoresOfThisThread();
    }
    team.Barrier(member);
  };
  constexpr int kRuns = 200;
  int kept_off = 0, others = 0;
  for (int run = 0; run < kRuns; ++run) {
    GoTo(all[run % all.size()], cores);
    team.Run(look, 2);
    if (!CPU_ISSET(core_of_0, &cores_of_1)) ++kept_off;
    others += CPU_COUNT(&cores_of_1) == CPU_COUNT(&cores) - 1;
  }
  EXPECT_GT(kept_off, kRuns / 2);
  EXPECT_EQ(others, kRuns) << "each of the other cores may be used";
}

TEST(CorePlacement, WithMoreThreadsThanCoresNothingChanges) {
  const cpu_set_t cores = CoresOfThisThread();
  const int threads = CPU_COUNT(&cores) + 1;
  ThreadTeam team(threads);
  std::atomic<int> all{0};
  auto look = [&](int) {
    const cpu_set_t mine = CoresOfThisThread();
    if (CPU_EQUAL(&mine, &cores)) ++all;
  };
  team.Run(look, threads);
  EXPECT_EQ(all, threads);
}

// sched_getattr(2), as far as it is looked at. The slice is at byte 24, in nanoseconds; Linux
// before 6.12 has 0 there.
uint64_t SliceOfThisThread() {
  std::array<uint64_t, 6> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0), 0);
  return attributes[3];
}

TEST(CorePlacement, WorkersHaveShortTimeSlices) {
  if (SliceOfThisThread() == 0) GTEST_SKIP() << "this Linux does not tell of time slices";
  ThreadTeam team(2);
  std::array<uint64_t, 2> slices{};
  auto look = [&](int member) { slices[member] = SliceOfThisThread(); };
  team.Run(look, 2);
  EXPECT_EQ(slices[0], SliceOfThisThread()) << "the caller's stay as they were";
  EXPECT_EQ(slices[1], 100'000u);
}

}  // namespace
}  // namespace tandem::model::cpu
