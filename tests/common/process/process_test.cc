#include "common/process/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::process {
namespace {

TEST(WritePortFile, WritesANumberAndABreak) {
  const std::string path = testing::TempDir() + "/process_test_port";
  ASSERT_TRUE(WritePortFile(path, 50051).ok());
  ASSERT_TRUE(WritePortFile(path, 7).ok()) << "an old file is replaced";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "7\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
}

TEST(WritePortFile, NamesThePathItCannotWrite) {
  const absl::Status status = WritePortFile("/nowhere/at/all", 1);
  EXPECT_EQ(status, absl::NotFoundError(
                        "--port-file: cannot write /nowhere/at/all: No such file or directory"));
  EXPECT_EQ(CheckPortFile("/nowhere/at/all"), status);
  EXPECT_TRUE(WritePortFile("", 1).ok());
}

TEST(WritePortFile, ReplacesAPortFileAndNothingElse) {
  const std::string path = testing::TempDir() + "/process_test_other";
  for (const char* old : {"", "50051\n", "50051"}) {
    std::ofstream(path) << old;
    EXPECT_TRUE(CheckPortFile(path).ok()) << old;
  }
  for (const char* precious : {"a diary\n", "50051 and more", "1\n2\n"}) {
    std::ofstream(path) << precious;
    EXPECT_EQ(CheckPortFile(path).code(), absl::StatusCode::kAlreadyExists) << precious;
    EXPECT_EQ(WritePortFile(path, 7).code(), absl::StatusCode::kAlreadyExists) << precious;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(text.str(), precious);
  }
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/full", path);
  for (const std::string& special : {path, std::string("/dev/full"), testing::TempDir()}) {
    EXPECT_EQ(WritePortFile(special, 7).code(), absl::StatusCode::kInvalidArgument) << special;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  std::filesystem::remove(path);
}

TEST(StopSignals, EndTheWaitAndNotTheProcess) {
  BlockStopSignals();
  EXPECT_FALSE(WaitForStopSignal(absl::ZeroDuration()));
  for (int signal : {SIGTERM, SIGINT}) {
    ASSERT_EQ(pthread_kill(pthread_self(), signal), 0);
    EXPECT_TRUE(WaitForStopSignal(absl::Seconds(5)));
  }
  ASSERT_EQ(pthread_kill(pthread_self(), SIGTERM), 0);
  EXPECT_TRUE(WaitForStopSignal());
}

TEST(WatchUntilStopSignal, TellsEachChangeOnce) {
  BlockStopSignals();
  const std::vector<absl::Duration> seen = {absl::Seconds(1), absl::Seconds(60), absl::Seconds(61),
                                            absl::Seconds(62), absl::ZeroDuration()};
  size_t looks = 0;
  std::vector<bool> told;
  WatchUntilStopSignal(
      [&] {
        if (looks + 1 == seen.size()) pthread_kill(pthread_self(), SIGTERM);
        return seen[looks++];
      },
      [&](bool alive) { told.push_back(alive); }, [] { return false; }, absl::Minutes(1),
      absl::ZeroDuration());
  EXPECT_EQ(looks, seen.size());
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
}

TEST(WatchUntilStopSignal, ReturnsWhenTheServiceFailed) {
  BlockStopSignals();
  int looks = 0;
  WatchUntilStopSignal([] { return absl::ZeroDuration(); }, [](bool /*alive*/) {},
                       [&looks] { return ++looks == 3; }, absl::Minutes(1), absl::ZeroDuration());
  EXPECT_EQ(looks, 3);
  EXPECT_FALSE(WaitForStopSignal(absl::ZeroDuration()));
}

TEST(RaiseDescriptorLimit, TakesWhatTheSystemAllows) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const int raised = RaiseDescriptorLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, static_cast<rlim_t>(raised));
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
}

}  // namespace
}  // namespace tandem::process
