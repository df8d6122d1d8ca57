#include "common/base/log.h"

#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem::base {
namespace {

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

std::string FormatLogLine(const LogEntry& entry, int64_t unix_millis) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(unix_millis),
                                       absl::UTCTimeZone()),
                      " ", Name(entry.level), " ", entry.file, ":", entry.line, " ",
                      absl::StrReplaceAll(entry.message, {{"\n", "\\n"}, {"\r", "\\r"}}), "\n");
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

LogMessage::~LogMessage() {
  std::string message = message_.str();
  LogEntry entry{level_, file_, line_, message};
  State& state = GetState();
  const std::lock_guard lock(state.mutex);
  if (state.sink) {
    state.sink(entry);
    return;
  }
  std::string line = FormatLogLine(entry, absl::ToUnixMillis(absl::Now()));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace internal
}  // namespace tandem::base
