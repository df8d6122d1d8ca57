#include "common/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/json.h"

namespace tandem::base {
namespace {

std::atomic<LogFormat> log_format = LogFormat::kText;
std::atomic<LogLevel> min_level = LogLevel::kInfo;

struct State {
  std::mutex mutex;  // of the standard library: concurrency stands above this folder
  std::function<void(const LogEntry&)> sink;
};

// Never destroyed: threads may log while the process ends.
State& GetState() {
  static State* state = new State;
  return *state;
}

absl::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "?";
}

}  // namespace

void SetLogFormat(LogFormat format) { log_format = format; }
LogFormat GetLogFormat() { return log_format; }
void SetMinLogLevel(LogLevel level) { min_level = level; }

std::string FormatLogLine(const LogEntry& entry, int64_t unix_millis, LogFormat format) {
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                                            absl::FromUnixMillis(unix_millis), absl::UTCTimeZone());
  const std::string source = absl::StrCat(entry.file, ":", entry.line);
  if (format == LogFormat::kText) {
    return absl::StrCat(time, " ", Name(entry.level), " ", source, " ",
                        absl::StrReplaceAll(entry.message, {{"\n", "\\n"}, {"\r", "\\r"}}), "\n");
  }
  return absl::StrCat("{\"time\": \"", time, "\", \"level\": \"", Name(entry.level),
                      "\", \"source\": ", JsonText(source).text(), ", ",
                      entry.event != nullptr
                          ? entry.event->json()
                          : absl::StrCat("\"message\": ", JsonText(entry.message).text()),
                      "}\n");
}

ScopedLogSink::ScopedLogSink(std::function<void(const LogEntry&)> sink) {
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  previous_ = std::exchange(state.sink, std::move(sink));
}

ScopedLogSink::~ScopedLogSink() {
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  state.sink = std::move(previous_);
}

namespace internal {

void WriteLogLine(const LogEntry& entry) {
  const std::string line = FormatLogLine(entry, absl::ToUnixMillis(absl::Now()), log_format);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

LogMessage::~LogMessage() {
  if (level_ < min_level) return;
  const std::string message = event_.has_value() ? event_->text() : message_.str();
  const LogEntry entry{level_, file_, line_, message, event_.has_value() ? &*event_ : nullptr};
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  if (state.sink) {
    state.sink(entry);
  } else {
    WriteLogLine(entry);
  }
}

}  // namespace internal
}  // namespace tandem::base
