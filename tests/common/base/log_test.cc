#include "common/base/log.h"

#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/json.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(LogTest, LineHasTimeLevelPlaceAndMessage) {
  LogEntry entry{LogLevel::kWarning, "a/b.cc", 7, "two\nlines\r"};
  EXPECT_EQ(FormatLogLine(entry, 1'763'719'201'005, LogFormat::kText),
            "2025-11-21T10:00:01.005Z WARNING a/b.cc:7 two\\nlines\\r\n");
  entry = {LogLevel::kError, "x.cc", 1, "m"};
  EXPECT_EQ(FormatLogLine(entry, 0, LogFormat::kText), "1970-01-01T00:00:00.000Z ERROR x.cc:1 m\n");
}

TEST(LogTest, ALineOfJsonHasAMessageOrAnEventWithItsFields) {
  LogEntry entry{LogLevel::kInfo, "a/b.cc", 7, "said \"so\""};
  EXPECT_EQ(FormatLogLine(entry, 0, LogFormat::kJson),
            R"({"time": "1970-01-01T00:00:00.000Z", "level": "INFO", "source": "a/b.cc:7", )"
            R"("message": "said \"so\""})"
            "\n");
  const LogFields event = LogFields("request").Add("id", "123").Add("rows", 7).Add("a", 0.5);
  entry.event = &event;
  EXPECT_EQ(FormatLogLine(entry, 0, LogFormat::kJson),
            R"({"time": "1970-01-01T00:00:00.000Z", "level": "INFO", "source": "a/b.cc:7", )"
            R"("event": "request", "id": "123", "rows": 7, "a": 0.5})"
            "\n");
}

// Every byte, alone and before another one, in a message and in a field.
TEST(LogTest, ALineOfJsonIsOneWhateverItQuotes) {
  for (int byte = 0; byte < 256; ++byte) {
    for (const std::string& text : {std::string(1, static_cast<char>(byte)),
                                    std::string(1, static_cast<char>(byte)) + "\"}\n\\"}) {
      const LogFields event = LogFields("e").Add("k", text);
      for (const LogFields* its : {static_cast<const LogFields*>(nullptr), &event}) {
        const LogEntry entry{LogLevel::kInfo, "x.cc", 1, text, its};
        const std::string line = FormatLogLine(entry, 0, LogFormat::kJson);
        ASSERT_EQ(line.find('\n'), line.size() - 1) << byte;
        const auto json = JsonValue::Parse(line);
        ASSERT_TRUE(json.ok()) << line << json.status();
        const auto value = (*json)[its == nullptr ? "message" : "k"].String();
        ASSERT_TRUE(value.has_value()) << line;
        EXPECT_TRUE(byte >= 128 || *value == text) << line;
      }
    }
  }
}

TEST(LogTest, WhatIsBelowTheLeastLevelIsNotWritten) {
  std::vector<std::string> messages;
  const ScopedLogSink sink([&](const LogEntry& entry) { messages.emplace_back(entry.message); });
  SetMinLogLevel(LogLevel::kWarning);
  TANDEM_LOG(kInfo) << "not this";
  TANDEM_LOG(kWarning) << "this";
  TANDEM_LOG(kError) << LogFields("and").Add("this", 1);
  SetMinLogLevel(LogLevel::kInfo);
  EXPECT_EQ(messages, (std::vector<std::string>{"this", "and this=1"}));
}

TEST(LogTest, TheFormatIsTheProcesss) {
  SetLogFormat(LogFormat::kJson);
  ::testing::internal::CaptureStderr();
  TANDEM_LOG(kInfo) << LogFields("ready").Add("port", 5);
  const std::string text = ::testing::internal::GetCapturedStderr();
  SetLogFormat(LogFormat::kText);
  EXPECT_EQ(text.find("{\"time\": \""), 0u) << text;
  EXPECT_NE(text.find("\", \"event\": \"ready\", \"port\": 5}\n"), std::string::npos) << text;
}

TEST(LogDeathTest, AFailedCheckIsALineOfTheLog) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        SetLogFormat(LogFormat::kJson);
        TANDEM_CHECK(2 < 1) << "\"why\"";
      },
      R"(^\{"time": .*"message": ".*log_test.cc:[0-9]+: CHECK failed: 2 < 1 \\"why\\""\})");
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
