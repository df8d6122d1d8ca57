#include "common/process/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tandem::process::machine_test {
namespace {

constexpr char kVersion2[] =
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kVersion1[] =
    "30 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "31 25 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
    "32 25 0:29 / /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids\n";
constexpr int64_t kGiB = int64_t{1} << 30;

// A machine's files, in a folder of the test's own.
class MachineTest : public ::testing::Test {
 protected:
  MachineTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("machine_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~MachineTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  CgroupLimits Read() const { return ReadCgroupLimits(root_.string()); }

 private:
  const std::filesystem::path root_;
};

TEST_F(MachineTest, Version2OfAContainerThatSeesItselfAsTheRoot) {
  Write("proc/self/mountinfo", kVersion2);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  Write("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_EQ(Read().cpus, 1.5);
  EXPECT_EQ(Read().memory_bytes, 4 * kGiB);
}

TEST_F(MachineTest, Version2TheTightestOnTheWayUpCounts) {
  Write("proc/self/mountinfo", kVersion2);
  Write("proc/self/cgroup", "0::/pods/one/here\n");
  Write("sys/fs/cgroup/pods/one/here/cpu.max", "800000 100000\n");
  Write("sys/fs/cgroup/pods/one/here/memory.max", "max\n");
  Write("sys/fs/cgroup/pods/one/cpu.max", "200000 100000\n");
  Write("sys/fs/cgroup/pods/one/memory.max", "2147483648\n");
  Write("sys/fs/cgroup/pods/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/pods/memory.max", "8589934592\n");
  Write("sys/fs/cgroup/pods/other/cpu.max", "1000 100000\n");  // not ours
  EXPECT_EQ(Read().cpus, 2.0);
  EXPECT_EQ(Read().memory_bytes, 2 * kGiB);
}

TEST_F(MachineTest, MaxIsNoLimit) {
  Write("proc/self/mountinfo", kVersion2);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Read().cpus, std::nullopt);
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
}

TEST_F(MachineTest, Version1) {
  Write("proc/self/mountinfo", kVersion1);
  Write("proc/self/cgroup", "5:pids:/box\n4:memory:/box\n3:cpu,cpuacct:/box/inner\n");
  Write("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "350000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  EXPECT_EQ(Read().cpus, 3.5);
  EXPECT_EQ(Read().memory_bytes, kGiB);
}

TEST_F(MachineTest, Version1WithoutLimits) {
  Write("proc/self/mountinfo", kVersion1);
  Write("proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().cpus, std::nullopt);
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
}

// As containers of version 1 have it: the group's name is the machine's, its files are at the mount
// itself.
TEST_F(MachineTest, MountThatShowsOnlyThisGroup) {
  Write("proc/self/mountinfo",
        "30 25 0:27 /docker/4f2 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
        "31 25 0:28 /docker/4f2 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  Write("proc/self/cgroup", "4:memory:/docker/4f2\n3:cpu:/docker/4f2/below\n");
  Write("sys/fs/cgroup/cpu/below/cpu.cfs_quota_us", "200000\n");
  Write("sys/fs/cgroup/cpu/below/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(Read().cpus, 2.0);
  EXPECT_EQ(Read().memory_bytes, kGiB);
}

// A group that lies elsewhere: what can be seen is what there is.
TEST_F(MachineTest, GroupOutOfSight) {
  Write("proc/self/mountinfo", "29 23 0:26 /pods/one /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  Write("proc/self/cgroup", "0::/pods/one-more\n");
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read().cpus, 3.0);
}

TEST_F(MachineTest, BothVersionsAtOnce) {
  Write("proc/self/mountinfo",
        std::string(kVersion1) + "33 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/\n0::/\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  Write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  Write("sys/fs/cgroup/unified/memory.max", "1073741824\n");
  EXPECT_EQ(Read().cpus, 4.0);
  EXPECT_EQ(Read().memory_bytes, kGiB);
}

TEST_F(MachineTest, WhatMakesNoSenseLimitsNothing) {
  Write("proc/self/mountinfo",
        std::string("nonsense\n29 23 - cgroup2\n29 23 0:26 / - cgroup2 cgroup2 rw\n - \n") +
            kVersion2);
  Write("proc/self/cgroup", "\n0::\n0:\n::\n0::relative\n9:cpu:/x\n0::/here\n");
  for (const char* cpu : {"", "0 100000", "-5 100000", "100000 0", "100000", "a b", "1 2 3",
                          "99999999999999999999 100000"}) {
    Write("sys/fs/cgroup/here/cpu.max", cpu);
    EXPECT_EQ(Read().cpus, std::nullopt) << cpu;
  }
  for (const char* memory : {"", "0", "-1", "12 13", "1e9", "99999999999999999999"}) {
    Write("sys/fs/cgroup/here/memory.max", memory);
    EXPECT_EQ(Read().memory_bytes, std::nullopt) << memory;
  }
}

TEST_F(MachineTest, NoSuchFiles) {
  EXPECT_EQ(Read().cpus, std::nullopt);
  EXPECT_EQ(Read().memory_bytes, std::nullopt);
}

TEST(WithinTest, TheTightestCounts) {
  EXPECT_EQ(Within({}, 64, 8 * kGiB).cpus, 64);
  EXPECT_EQ(Within({}, 64, 8 * kGiB).memory_bytes, 8 * kGiB);
  EXPECT_EQ(Within({.cpus = 2}, 64, 8 * kGiB).cpus, 2);
  EXPECT_EQ(Within({.cpus = 2.5}, 64, 8 * kGiB).cpus, 3);
  EXPECT_EQ(Within({.cpus = 0.01}, 64, 8 * kGiB).cpus, 1);
  EXPECT_EQ(Within({.cpus = 128}, 64, 8 * kGiB).cpus, 64);
  EXPECT_EQ(Within({.cpus = 1e30}, 64, 8 * kGiB).cpus, 64);
  EXPECT_EQ(Within({}, 0, kGiB).cpus, 1);
  EXPECT_EQ(Within({.memory_bytes = kGiB}, 1, 8 * kGiB).memory_bytes, kGiB);
  EXPECT_EQ(Within({.memory_bytes = 9 * kGiB}, 1, 8 * kGiB).memory_bytes, 8 * kGiB);
}

TEST(ThisMachineTest, HasWhatThisProcessRunsOn) {
  const Machine machine = ThisMachine();
  EXPECT_GE(machine.cpus, 1);
  EXPECT_LE(machine.cpus, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(machine.memory_bytes, int64_t{1} << 20);
}

}  // namespace
}  // namespace tandem::process::machine_test
