#include "common/process/library_locks.h"

#include "absl/synchronization/mutex.h"

namespace tandem::process {

void StopDeadlockDetection() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace tandem::process
