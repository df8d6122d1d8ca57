// The log's lines with fields (common/base/log_fields.h), read back.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/log.h"
#include "common/concurrency/mutex.h"

namespace tandem::testing {

struct LogLine {
  std::string text;  // the whole of it
  std::string event;
  std::map<std::string, std::string> fields;  // unquoted; escapes as they stand

  bool operator==(const LogLine&) const = default;
};

inline LogLine ParseLogLine(absl::string_view text) {
  LogLine line;
  line.text = std::string(text);
  size_t at = text.find(' ');
  line.event = std::string(text.substr(0, at));
  while (at < text.size()) {
    const size_t begin = at + 1;
    const size_t equals = text.find('=', begin);
    if (equals == text.npos) break;  // no line of this kind
    const std::string key(text.substr(begin, equals - begin));
    if (equals + 1 < text.size() && text[equals + 1] == '"') {
      size_t close = equals + 2;
      while (close < text.size() && text[close] != '"') close += text[close] == '\\' ? 2 : 1;
      line.fields[key] = std::string(text.substr(equals + 2, close - equals - 2));
      at = close + 1;
    } else {
      at = text.find(' ', equals);
      line.fields[key] =
          std::string(text.substr(equals + 1, at == text.npos ? at : at - equals - 1));
    }
  }
  return line;
}

// All that this process logs while it lives.
class LogRecorder {
 public:
  LogRecorder() : sink_([this](const base::LogEntry& entry) { Add(entry.message); }) {}

  std::vector<LogLine> Lines() const {
    concurrency::MutexLock lock(mutex_);
    return lines_;
  }
  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const LogLine& line : Lines()) texts.push_back(line.text);
    return texts;
  }
  std::vector<LogLine> Of(absl::string_view event) const {
    std::vector<LogLine> found;
    for (LogLine& line : Lines()) {
      if (line.event == event) found.push_back(std::move(line));
    }
    return found;
  }

 private:
  void Add(absl::string_view message) {
    concurrency::MutexLock lock(mutex_);
    lines_.push_back(ParseLogLine(message));
  }

  mutable concurrency::Mutex mutex_;
  std::vector<LogLine> lines_ TANDEM_GUARDED_BY(mutex_);
  const base::ScopedLogSink sink_;  // last: it ends first
};

}  // namespace tandem::testing
