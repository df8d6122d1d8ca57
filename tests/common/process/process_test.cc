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

#include "common/process/descriptors.h"

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
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("--port-file=/nowhere/at/all"), std::string::npos) << status;
  EXPECT_TRUE(WritePortFile("", 1).ok());
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
      [&](bool alive) { told.push_back(alive); }, absl::Minutes(1), absl::ZeroDuration());
  EXPECT_EQ(looks, seen.size());
  EXPECT_EQ(told, (std::vector<bool>{false, true}));
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
