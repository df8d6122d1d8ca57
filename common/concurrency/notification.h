// Something that happens once, and threads that wait for it. Like absl::Notification, but
// ThreadSanitizer sees what it orders.
#pragma once

#include <chrono>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

// Thread-safe. A thread that has waited sees what happened before Notify. May be destroyed as soon
// as a wait has returned.
class Notification {
 public:
  // May be called once.
  void Notify() TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    TANDEM_CHECK(!notified_) << "notified twice";
    notified_ = true;
    changed_.NotifyAll();  // under the lock: the waiter may destroy this as soon as it has it
  }

  bool HasBeenNotified() const TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return notified_;
  }

  void Wait() TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!notified_) changed_.Wait(mutex_);
  }

  // False when `timeout` passed first.
  bool WaitFor(absl::Duration timeout) TANDEM_EXCLUDES(mutex_) {
    if (timeout >= absl::Hours(24 * 365)) {
      Wait();
      return true;
    }
    auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
    MutexLock lock(mutex_);
    while (!notified_) {
      auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::steady_clock::duration::zero()) return false;
      changed_.WaitFor(mutex_, absl::FromChrono(left));
    }
    return true;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool notified_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::concurrency
