#include "model/cpu/thread_team.h"

#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::model::cpu {
namespace {

TEST(ThreadTeam, EveryMemberRunsOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    std::vector<int> calls(threads, 0);
    auto count = [&](int member) { ++calls[member]; };
    for (int run = 0; run < 50; ++run) team.Run(count, threads);
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
    team.Run(work, kThreads);
    for (int phase = 0; phase < kPhases; ++phase) {
      long sum = 0;
      for (long value : wanted) sum += value;
      for (int member = 0; member < kThreads; ++member) wanted[member] = sum % 1000 + member;
    }
    ASSERT_EQ(values, wanted);
  }
}

TEST(RunAlone, OnlyWhereWaitingCostMoreThanTheOthersGave) {
  RunAlone alone;
  EXPECT_FALSE(alone.Next());
  for (int i = 0; i < 100; ++i) {
    alone.Ran(/*members=*/2, /*total=*/100, /*waited=*/50);  // as quick as alone: keep the team
    ASSERT_FALSE(alone.Next()) << i;
  }
  alone.Ran(2, 100, 100);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(alone.Next()) << i;
  EXPECT_FALSE(alone.Next());
  alone.Ran(2, 100, 90);  // still crowded: twice as long
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(alone.Next()) << i;
  EXPECT_FALSE(alone.Next());
  alone.Ran(2, 100, 0);
  EXPECT_FALSE(alone.Next());
  alone.Ran(4, 100, 70);  // four members: alone would be slower still
  EXPECT_FALSE(alone.Next());
}

// The team takes 150 where member 0 takes 200, but every fifth time somebody has a core meanwhile.
TEST(RunAlone, NotForADisturbedRunAmongOthers) {
  RunAlone alone;
  int runs_alone = 0;
  for (int run = 0; run < 1000; ++run) {
    if (alone.Next()) {
      ++runs_alone;
    } else if (run % 5 == 4) {
      alone.Ran(2, 300, 200);
    } else {
      alone.Ran(2, 150, 50);
    }
  }
  EXPECT_EQ(runs_alone, 0);
}

// A little slower each time is as bad as much slower once.
TEST(RunAlone, WhereTheTeamIsALittleSlowerEachTime) {
  RunAlone alone;
  for (int i = 0; i < 20; ++i) alone.Ran(2, 100, 0);  // was quick before
  int runs_alone = 0;
  for (int run = 0; run < 2000; ++run) {
    if (alone.Next()) {
      ++runs_alone;
    } else {
      alone.Ran(2, 100, 60);
    }
  }
  EXPECT_GT(runs_alone, 1900);
}

// Whoever runs, every share of the work is done once.
TEST(ThreadTeam, AloneOrTogetherTheWorkIsDone) {
  ThreadTeam team(4, ThreadTeam::Policy::kAloneWhenCrowded);
  std::vector<int> done(64, 0);
  auto work = [&](int member) {
    for (size_t i = member; i < done.size(); i += team.active()) ++done[i];
    team.Barrier(member);
  };
  for (int run = 0; run < 300; ++run) team.Run(work, team.Wanted());
  EXPECT_EQ(done, std::vector<int>(64, 300));
}

// Runs of any number of members, one after the other; those that are left out neither run nor
// count.
TEST(ThreadTeam, APartOfTheTeamRuns) {
  constexpr int kThreads = 4;
  ThreadTeam team(kThreads);
  std::vector<long> values(kThreads, 0);
  std::vector<long> sums(kThreads, 0);
  int active = 0;
  auto work = [&](int member) {
    ++values[member];
    team.Barrier(member);
    long sum = 0;
    for (int i = 0; i < active; ++i) sum += values[i];
    sums[member] = sum;
    team.Barrier(member);
  };
  std::vector<long> wanted(kThreads, 0);
  for (int run = 0; run < 400; ++run) {
    active = 1 + run * 7 % kThreads;
    team.Run(work, active);
    EXPECT_EQ(team.active(), active);
    long sum = 0;
    for (int i = 0; i < active; ++i) sum += ++wanted[i];
    for (int i = 0; i < active; ++i) ASSERT_EQ(sums[i], sum) << run;
    ASSERT_EQ(values, wanted) << run;
  }
}

// Member 0 waits as long in both; only where shares are alike does it show that cores are lacking.
TEST(ThreadTeam, UnevenWorkSaysNothingOfTheMachine) {
  std::vector<int> calls(2, 0);
  auto work = [&calls](int member) {
    ++calls[member];
    if (member == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  ThreadTeam team(2, ThreadTeam::Policy::kAloneWhenCrowded);
  team.RunUneven(work, 2);
  EXPECT_EQ(team.Ready(), 2);
  EXPECT_EQ(team.Wanted(), 2);
  team.Run(work, 2);
  EXPECT_EQ(team.Ready(), 1);
  EXPECT_EQ(team.Ready(), 1) << "asking is no try";
  EXPECT_EQ(team.Wanted(), 1);
  team.RunUneven(work, 1);
  EXPECT_EQ(calls, (std::vector<int>{3, 2}));
}

}  // namespace
}  // namespace tandem::model::cpu
