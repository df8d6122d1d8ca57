// What a service says of its load (Load in describe.proto): how long its device has computed, what
// its passes had, what waits. A cost curve and the slots of one stream are the service's to add.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::serving {

// Thread-safe: the service's thread writes, anyone reads.
class LoadMeter {
 public:
  // Time counts from here. `clock` must outlive it.
  explicit LoadMeter(const concurrency::Clock& clock);

  // The service's thread computes from now on, and no longer. Begin does nothing where it does
  // already, and End where it does not. The time between is busy.
  void BeginWork() TANDEM_EXCLUDES(mutex_);
  void EndWork() TANDEM_EXCLUDES(mutex_);
  // The same of a device that says itself how long it computed: that is busy, once it is known.
  void BeginPass() TANDEM_EXCLUDES(mutex_);
  void EndPass(absl::Duration computed) TANDEM_EXCLUDES(mutex_);
  void CountPass(uint64_t rows, uint64_t sequences) TANDEM_EXCLUDES(mutex_);
  void SetWaiting(uint32_t free_slots, uint32_t queued_rows) TANDEM_EXCLUDES(mutex_);

  // As of now.
  v1::Load Snapshot() const TANDEM_EXCLUDES(mutex_);
  // Since the last begin; 0 after its end.
  absl::Duration working_for() const TANDEM_EXCLUDES(mutex_);

 private:
  const concurrency::Clock& clock_;
  const concurrency::Instant began_;
  mutable concurrency::Mutex mutex_;
  v1::Load load_ TANDEM_GUARDED_BY(mutex_);          // but for the two times
  absl::Duration worked_ TANDEM_GUARDED_BY(mutex_);  // before working_since_
  std::optional<concurrency::Instant> working_since_ TANDEM_GUARDED_BY(mutex_);
  bool is_pass_ TANDEM_GUARDED_BY(mutex_) = false;  // BeginPass began it
};

}  // namespace tandem::serving
