// Log lines about refused callers: one for each cause and minute, with the number of the others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::security {

// The first refusal of a cause is a line at once: "unauthenticated method=… peer=… reason=…". Those
// within a minute after it are counted; the count is in the next line (`others`), which comes with
// the next refusal of that cause, with any call after the minute, or at the end. Thread-safe.
class RefusalLog {
 public:
  RefusalLog() = default;
  // Logs the counts that are left.
  ~RefusalLog();
  RefusalLog(const RefusalLog&) = delete;
  RefusalLog& operator=(const RefusalLog&) = delete;

  // `method` and `reason` are the cause: few different ones, and nothing of what a caller sent.
  void Refused(absl::string_view method, absl::string_view reason, absl::string_view peer,
               absl::Time now) TANDEM_EXCLUDES(mutex_);
  // Logs the counts whose minute is over.
  void Look(absl::Time now) TANDEM_EXCLUDES(mutex_);

 private:
  struct Cause {
    absl::Time said = absl::InfinitePast();
    int64_t others = 0;  // since then
  };

  concurrency::Mutex mutex_;
  std::map<std::pair<std::string, std::string>, Cause> causes_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::security
