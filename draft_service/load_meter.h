// What the service says of its load (Load in tokens.proto).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::draft_service {

// Thread-safe: the drafting thread writes, anyone reads.
class LoadMeter {
 public:
  // Time counts from here. `clock` must outlive it.
  explicit LoadMeter(const concurrency::Clock& clock);

  // The drafting thread computes from now on, and no longer.
  void BeginWork() TANDEM_EXCLUDES(mutex_);
  void EndWork() TANDEM_EXCLUDES(mutex_);
  void CountPass(uint64_t rows, uint64_t sequences) TANDEM_EXCLUDES(mutex_);
  void SetWaiting(uint32_t free_slots, uint32_t queued_rows) TANDEM_EXCLUDES(mutex_);

  // Without a cost curve.
  v1::Load Snapshot() const TANDEM_EXCLUDES(mutex_);
  // Since BeginWork; 0 after EndWork.
  absl::Duration working_for() const TANDEM_EXCLUDES(mutex_);

 private:
  const concurrency::Clock& clock_;
  const concurrency::Instant began_;
  mutable concurrency::Mutex mutex_;
  v1::Load load_ TANDEM_GUARDED_BY(mutex_);          // but for the two times
  absl::Duration worked_ TANDEM_GUARDED_BY(mutex_);  // before working_since_
  std::optional<concurrency::Instant> working_since_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::draft_service
