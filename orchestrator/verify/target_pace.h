// How busy and how fast one target is, as this orchestrator sees it: by what the target reports of its
// queue and its device, and by how long our own Steps took. For watchdogs, draft deadlines and the choice
// of a target; it looks at times and counts alone.
//
// Thread-safe: all requests of a target share one.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

class TargetPace {
 public:
  // Steps of at most this many rows count as rounds; longer ones tell the price of a prefix token.
  static constexpr uint32_t kRoundRows = 32;
  // A queue that was reported longer ago than this counts as empty, unless we wait for something there:
  // then a newer report would have come.
  static constexpr absl::Duration kReportLife = absl::Seconds(1);

  // A pass of `rows` rows takes `time`.
  struct CostPoint {
    uint32_t rows = 0;
    absl::Duration time;
  };

  // A Step of `rows` (tokens to compute) is on its way.
  void Submitted(uint32_t rows);
  // It was answered with a verdict after `elapsed`.
  void Answered(uint32_t rows, absl::Duration elapsed);
  // It got no verdict: lost, or refused.
  void Forgotten(uint32_t rows);

  // The target's report: rows that wait for its device; what passes cost, sorted by rows (empty: as
  // reported before). `now`: of any steady clock, the one of QueuedRows and Expected.
  void Reported(uint32_t queued_rows, std::vector<CostPoint> curve, concurrency::Instant now);
  // A round's verdict was good: it was checked, and what it decided is committed.
  void Good() { good_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t good() const { return good_.load(std::memory_order_relaxed); }  // so far

  // A new stream: nothing that an older one reported of its queue holds.
  void StreamBegan();

  // Of a round, queueing included; zero while nothing is known.
  absl::Duration Round() const;

  // The queue of the last report, and our rows that were sent there since.
  uint64_t QueuedRows(concurrency::Instant now) const;

  // How long a Step of `rows` should take behind all that is on its way, ours and the reported queue: by
  // the cost curve, and never less than a round was measured to take; without a curve by what was
  // measured, generously while nothing is known.
  absl::Duration Expected(uint32_t rows, concurrency::Instant now) const;

 private:
  void Left(uint32_t rows) TANDEM_REQUIRES(mutex_);
  uint64_t Queued(concurrency::Instant now) const TANDEM_REQUIRES(mutex_);
  absl::Duration ByCurve(uint64_t rows) const TANDEM_REQUIRES(mutex_);

  std::atomic<uint64_t> good_{0};

  mutable concurrency::Mutex mutex_;
  absl::Duration round_ TANDEM_GUARDED_BY(mutex_);      // moving average; zero: unknown
  absl::Duration per_token_ TANDEM_GUARDED_BY(mutex_);  // moving average; zero: unknown
  uint64_t rows_under_way_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t rows_since_report_ TANDEM_GUARDED_BY(mutex_) = 0;  // of these
  uint64_t reported_rows_ TANDEM_GUARDED_BY(mutex_) = 0;
  concurrency::Instant reported_at_ TANDEM_GUARDED_BY(mutex_);
  std::vector<CostPoint> curve_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
