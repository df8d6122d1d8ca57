// Logging: one line an event, on stderr, as text or as a JSON object.
//
//   TANDEM_LOG(kWarning) << "draft " << address << " is gone: " << status;
//   2026-11-21T09:55:01.123Z WARNING orchestrator/peers/pool.cc:42 draft 127.0.0.1:50 is gone: …
//   {"time": "2026-11-21T09:55:01.123Z", "level": "WARNING", "source": "orchestrator/peers/…",
//    "message": "draft 127.0.0.1:50 is gone: …"}
//
// An event with fields (log_fields.h) has "event" and its fields as members in place of "message".
//
// Thread-safe; lines never mix. Line breaks inside a message are escaped, so that an event stays
// one line; what is not UTF-8 becomes U+FFFD in JSON. Not for hot paths: a line is formatted and
// written by the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/log_fields.h"

namespace tandem::base {

enum class LogLevel { kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };

struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  absl::string_view file;  // as the compiler names it
  int line = 0;
  absl::string_view message;         // as streamed; an event's is LogFields::text
  const LogFields* event = nullptr;  // null: the message is free text
};

// Of all lines from now on. Default: kText, and every level.
void SetLogFormat(LogFormat format);
LogFormat GetLogFormat();
// What is below `level` is not written.
void SetMinLogLevel(LogLevel level);

// Sends all log entries of the process to `sink` instead of stderr while it lives; for tests. The
// sink is called by one thread at a time, and must not log. The newest one wins.
class ScopedLogSink {
 public:
  explicit ScopedLogSink(std::function<void(const LogEntry&)> sink);
  ~ScopedLogSink();
  ScopedLogSink(const ScopedLogSink&) = delete;
  ScopedLogSink& operator=(const ScopedLogSink&) = delete;

 private:
  std::function<void(const LogEntry&)> previous_;
};

// The line that is written for an entry, with its line break. `unix_millis`: UTC.
std::string FormatLogLine(const LogEntry& entry, int64_t unix_millis, LogFormat format);

namespace internal {

// Writes an entry to stderr now, whatever sink there is.
void WriteLogLine(const LogEntry& entry);

class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line)
      : level_(level), file_(file), line_(line) {}
  ~LogMessage();

  template <typename T>
  LogMessage& operator<<(const T& value) {
    message_ << value;
    return *this;
  }
  // The whole message.
  LogMessage& operator<<(LogFields event) {
    event_ = std::move(event);
    return *this;
  }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream message_;
  std::optional<LogFields> event_;
};

}  // namespace internal
}  // namespace tandem::base

#define TANDEM_LOG(level) \
  ::tandem::base::internal::LogMessage(::tandem::base::LogLevel::level, __FILE__, __LINE__)
