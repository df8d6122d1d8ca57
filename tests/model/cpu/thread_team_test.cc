#include "model/cpu/thread_team.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem::model::cpu {
namespace {

TEST(ThreadTeam, EveryMemberRunsOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    std::vector<int> calls(threads, 0);
    auto count = [&](int member) { ++calls[member]; };
    for (int run = 0; run < 50; ++run) team.Run(count);
    EXPECT_EQ(calls, std::vector<int>(threads, 50));
  }
}

// Each phase reads what all members wrote in the phase before; a barrier that lets one pass too
// early gives a wrong sum (and ThreadSanitizer a report). More members than cores.
TEST(ThreadTeam, BarrierSeparatesPhases) {
  constexpr int kThreads = 5;
  constexpr int kPhases = 60;
  ThreadTeam team(kThreads);
  std::vector<long> values(kThreads, 1);
  std::vector<long> next(kThreads, 0);
  auto work = [&](int member) {
    for (int phase = 0; phase < kPhases; ++phase) {
      long sum = 0;
      for (long value : values) sum += value;
      next[member] = sum % 1000 + member;
      team.Barrier(member);
      values[member] = next[member];
      team.Barrier(member);
    }
  };
  std::vector<long> wanted(kThreads, 1);
  for (int run = 0; run < 3; ++run) {
    team.Run(work);
    for (int phase = 0; phase < kPhases; ++phase) {
      long sum = 0;
      for (long value : wanted) sum += value;
      for (int member = 0; member < kThreads; ++member) wanted[member] = sum % 1000 + member;
    }
    ASSERT_EQ(values, wanted);
  }
}

TEST(ThreadTeam, EndsWithoutEverRunning) { ThreadTeam team(3); }

}  // namespace
}  // namespace tandem::model::cpu
