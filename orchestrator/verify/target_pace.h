// How fast the target answers, as this orchestrator sees it: what a round costs, and what a token
// of prefix costs on top. For watchdogs and draft deadlines; it looks at times and counts alone.
//
// Thread-safe: all requests of a target share one.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

class TargetPace {
 public:
  // Steps of at most this many rows count as rounds; longer ones tell the price of a prefix token.
  static constexpr uint32_t kRoundRows = 32;

  // A Step of `rows` (tokens to compute) is on its way.
  void Submitted(uint32_t rows);
  // It was answered with a verdict after `elapsed`.
  void Answered(uint32_t rows, absl::Duration elapsed);
  // It got no verdict: lost, or refused.
  void Forgotten(uint32_t rows);

  // Of a round, queueing included; zero while nothing is known.
  absl::Duration Round() const;

  // How long a Step of `rows` should take, behind all that is on its way. Generous while nothing is
  // known.
  absl::Duration Expected(uint32_t rows) const;

 private:
  mutable concurrency::Mutex mutex_;
  absl::Duration round_ TANDEM_GUARDED_BY(mutex_);      // moving average; zero: unknown
  absl::Duration per_token_ TANDEM_GUARDED_BY(mutex_);  // moving average; zero: unknown
  uint64_t rows_under_way_ TANDEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::orchestrator
