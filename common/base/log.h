// Logging: one line an event, on stderr.
//
//   TANDEM_LOG(kWarning) << "draft " << address << " is gone: " << status;
//   2026-11-21T09:55:01.123Z WARNING orchestrator/peers/pool.cc:42 draft 127.0.0.1:50 is gone: …
//
// Thread-safe; lines never mix. Line breaks inside a message are written as \n, so that an event
// stays one line. Not for hot paths: a line is formatted and written by the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::base {

enum class LogLevel { kInfo, kWarning, kError };

struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  absl::string_view file;  // as the compiler names it
  int line = 0;
  absl::string_view message;  // as streamed
};

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
std::string FormatLogLine(const LogEntry& entry, int64_t unix_millis);

namespace internal {

class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line)
      : level_(level), file_(file), line_(line) {}
  ~LogMessage();

  std::ostream& stream() { return message_; }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream message_;
};

}  // namespace internal
}  // namespace tandem::base

#define TANDEM_LOG(level) \
  ::tandem::base::internal::LogMessage(::tandem::base::LogLevel::level, __FILE__, __LINE__).stream()
