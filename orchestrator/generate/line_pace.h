// How fast a line of requests moves, and so when it is worth while to ask again.
//
// Not thread-safe: Admission holds its lock.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"

namespace tandem::orchestrator {

class LinePace {
 public:
  // A request waits, and none waited before it.
  void OnBegun(concurrency::Instant now) { moved_ = now; }
  // The first of the line has got a place.
  void OnMoved(concurrency::Instant now);

  // Whole seconds until so many places will have become free, as fast as they did lately: from
  // kRetrySeconds (error_details.h), which it is too while nobody knows, to kMaxRetry.
  absl::Duration TimeFor(size_t places, concurrency::Instant now) const;

  // Clients of OpenAI's API believe up to this.
  static constexpr absl::Duration kMaxRetry = absl::Seconds(60);

 private:
  concurrency::Instant moved_;          // when the line began, or moved last
  std::optional<absl::Duration> mean_;  // time between two moves of a line; absent: it never moved
};

}  // namespace tandem::orchestrator
