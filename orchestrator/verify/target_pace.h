// How busy and how fast one target is, as this orchestrator sees it. It uses the target's reports
// of its queue and device, and the times that our own Steps took. Watchdogs, draft deadlines and
// the choice of a target use it. It looks at times and counts only.
//
// A report is believed up to limits. Without them a target with a wrong report keeps a Step as long
// as it likes: a request without a deadline would wait for the watchdog for years.
//
// Thread-safe: all requests at a target share one object.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/request/decoding_load.h"

namespace tandem::orchestrator {

class TargetPace {
 public:
  // Steps of at most this many rows count as rounds. Longer ones give the time of a prefix token.
  static constexpr uint32_t kRoundRows = 32;
  // A queue that was reported longer ago than this counts as empty, unless we wait for something
  // there: then a newer report would have come.
  static constexpr absl::Duration kReportLife = absl::Seconds(1);
  // A report makes no Step take longer than this, unless our own rows explain it: as many rows as
  // we have there may take the time that is assumed without a report.
  static constexpr absl::Duration kMaxReportedTime = absl::Seconds(30);
  // More points of a curve than this are not kept. A target sends some ten.
  static constexpr size_t kMaxCostPoints = 64;
  static constexpr uint32_t kMaxSequences = 65536;

  // A pass of `rows` rows takes `time`.
  struct CostPoint {
    uint32_t rows = 0;
    absl::Duration time;
  };

  // A Step of `rows` (tokens to compute) was sent.
  void Submitted(uint32_t rows);
  // The Step was answered with a verdict after `elapsed`.
  void Answered(uint32_t rows, absl::Duration elapsed);
  // The Step got no verdict: it was lost or refused.
  void Forgotten(uint32_t rows);

  // The target's report: the rows that wait for its device, and the times of passes, sorted by rows
  // (empty: as reported before). A curve that is not sorted or too long is ignored. `now` is a time
  // of the steady clock that QueuedRows and Expected use.
  void Reported(uint32_t queued_rows, std::vector<CostPoint> curve, concurrency::Instant now);
  // The same of all that it decodes. Believed up to kMaxSequences.
  void Decodes(const DecodingLoad& decoding);
  // A round's verdict was good: it was checked, and its decision is committed.
  void Good() { good_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t good() const { return good_.load(std::memory_order_relaxed); }  // number so far

  // A new stream began, and its target says what passes take; a curve that is not sorted or too
  // long is ignored. What older streams reported is discarded. `process` names the target's
  // process: one that is new has answered nothing yet.
  void StreamBegan(const std::string& process, std::vector<CostPoint> curve);

  // Steps that the target's process has answered with a verdict.
  uint64_t answers() const;

  // The time of a round with its queueing; zero while it is unknown.
  absl::Duration Round() const;

  // The time of one pass of `rows` by the reported curve; zero without a curve. Beyond its last
  // point the time of a row is that point's.
  absl::Duration PassTime(uint32_t rows) const;

  // As last reported; with 0 sequences before.
  DecodingLoad Decoding() const;

  // The queue of the last report, and our rows that were sent since.
  uint64_t QueuedRows(concurrency::Instant now) const;

  // How long a Step of `rows` should take behind all rows that are on their way, ours and those of
  // the reported queue. It uses the cost curve, and is never less than the measured time of a
  // round, and half of that of the slowest of late: a machine that was disturbed will be again.
  // Without a curve it uses measured times, and is generous while nothing is known. What
  // reports add to that is bounded by kMaxReportedTime.
  absl::Duration Expected(uint32_t rows, concurrency::Instant now) const;

 private:
  void Left(uint32_t rows) TANDEM_REQUIRES(mutex_);
  uint64_t Queued(concurrency::Instant now) const TANDEM_REQUIRES(mutex_);
  absl::Duration ByCurve(uint64_t rows) const TANDEM_REQUIRES(mutex_);
  absl::Duration ByOwnTimes(uint64_t rows) const TANDEM_REQUIRES(mutex_);

  std::atomic<uint64_t> good_{0};

  mutable concurrency::Mutex mutex_;
  std::string process_ TANDEM_GUARDED_BY(mutex_);
  uint64_t answers_ TANDEM_GUARDED_BY(mutex_) = 0;
  absl::Duration round_ TANDEM_GUARDED_BY(mutex_);      // moving average; zero: unknown
  absl::Duration slowest_ TANDEM_GUARDED_BY(mutex_);    // round, forgotten with time
  absl::Duration per_token_ TANDEM_GUARDED_BY(mutex_);  // moving average; zero: unknown
  uint64_t rows_under_way_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t rows_since_report_ TANDEM_GUARDED_BY(mutex_) = 0;  // rows sent since the last report
  uint64_t reported_rows_ TANDEM_GUARDED_BY(mutex_) = 0;
  concurrency::Instant reported_at_ TANDEM_GUARDED_BY(mutex_);
  std::vector<CostPoint> curve_ TANDEM_GUARDED_BY(mutex_);
  DecodingLoad decoding_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
