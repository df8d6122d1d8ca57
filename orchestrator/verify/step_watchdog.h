// Decides how long a Step may stay unanswered, and what it means when that time is over.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/loop_options.h"

namespace tandem::orchestrator {

// Not thread-safe. All times are of one steady clock.
class StepWatchdog {
 public:
  enum class Finding : uint8_t {
    kWait,          // the stream brings other verdicts or reports: the Step gets its time again
    kSequenceLost,  // the stream brings these, but not this verdict
    kStreamSilent,  // nothing came since the Step was sent
  };

  explicit StepWatchdog(const LoopOptions& options) : options_(options) {}

  void Sent(concurrency::Instant now) {
    sent_at_ = now;
    extensions_ = 0;
  }
  // A good verdict came, so the targets work.
  void Reset() { strikes_ = 0; }

  // The time for a Step that should take `expected`, at a target that has answered `answers` Steps
  // since its start. The first passes of a process are slow in ways that nobody foresees, so the
  // least time is kFirstFactor times watchdog_min at first, and falls with each answer. It doubles
  // with every lost Step in a row, so that one gets through at last if Steps are lost because they
  // are slow.
  absl::Duration Limit(absl::Duration expected, uint64_t answers) const {
    const double first = std::max(1.0, kFirstFactor / static_cast<double>(1 + answers));
    return std::max(options_.watchdog_min * first, expected * options_.watchdog_factor) *
           (1 << strikes_);
  }

  // The limit is over. `heard` is when the Step's stream last brought verdicts or a report.
  Finding Fired(concurrency::Instant heard) {
    const bool alive = heard > sent_at_;
    if (alive && extensions_ < kMaxExtensions) {
      ++extensions_;
      return Finding::kWait;
    }
    strikes_ = std::min(strikes_ + 1, kMaxDoublings);
    return alive ? Finding::kSequenceLost : Finding::kStreamSilent;
  }

  concurrency::Instant sent_at() const { return sent_at_; }

 private:
  static constexpr double kFirstFactor = 10;
  static constexpr uint32_t kMaxExtensions = 1;
  static constexpr uint32_t kMaxDoublings = 6;

  const LoopOptions& options_;
  concurrency::Instant sent_at_;
  uint32_t extensions_ = 0;
  uint32_t strikes_ = 0;  // in a row, with no good verdict between
};

}  // namespace tandem::orchestrator
