#include "common/base/log.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(LogTest, LineHasTimeLevelPlaceAndMessage) {
  LogEntry entry{LogLevel::kWarning, "a/b.cc", 7, "two\nlines\r"};
  EXPECT_EQ(FormatLogLine(entry, 1'763'719'201'005),
            "2025-11-21T10:00:01.005Z WARNING a/b.cc:7 two\\nlines\\r\n");
  entry = {LogLevel::kError, "x.cc", 1, "m"};
  EXPECT_EQ(FormatLogLine(entry, 0), "1970-01-01T00:00:00.000Z ERROR x.cc:1 m\n");
}

TEST(LogTest, GoesToStderrAsOneLine) {
  ::testing::internal::CaptureStderr();
  TANDEM_LOG(kInfo) << "value " << 3;
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(" INFO tests/common/base/log_test.cc:"), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 9), " value 3\n");
}

TEST(LogTest, SinkTakesAllThreadsEntriesOneAtATime) {
  std::vector<std::string> messages;
  {
    ScopedLogSink sink([&](const LogEntry& entry) { messages.emplace_back(entry.message); });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 100; ++i) TANDEM_LOG(kError) << "m" << i;
      });
    }
    for (std::thread& thread : threads) thread.join();
    {
      ScopedLogSink inner([](const LogEntry&) {});
      TANDEM_LOG(kInfo) << "to the inner one";
    }
    TANDEM_LOG(kInfo) << "last";
  }
  ASSERT_EQ(messages.size(), 401u);
  EXPECT_EQ(messages.back(), "last");
}

}  // namespace
}  // namespace tandem::base
