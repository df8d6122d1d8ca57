// std::mutex and std::condition_variable with clang's thread-safety attributes (no-ops elsewhere).
// Never absl::Mutex in our code: Debian's Abseil is not instrumented, so ThreadSanitizer would not
// see what it orders.
//
//   Mutex mutex_;
//   std::deque<Job> jobs_ TANDEM_GUARDED_BY(mutex_);
//
//   MutexLock lock(mutex_);
//   while (jobs_.empty()) changed_.Wait(mutex_);
//   Job job = std::move(jobs_.front());
//   jobs_.pop_front();
//   lock.Unlock();  // before calling out
//
// The loop stands in plain sight because the analysis cannot look into a predicate.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

#if defined(__clang__)
#define TANDEM_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TANDEM_THREAD_ATTRIBUTE(x)
#endif

#define TANDEM_CAPABILITY(name) TANDEM_THREAD_ATTRIBUTE(capability(name))
#define TANDEM_SCOPED_CAPABILITY TANDEM_THREAD_ATTRIBUTE(scoped_lockable)
#define TANDEM_GUARDED_BY(mutex) TANDEM_THREAD_ATTRIBUTE(guarded_by(mutex))
#define TANDEM_REQUIRES(...) TANDEM_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TANDEM_EXCLUDES(...) TANDEM_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TANDEM_ACQUIRE(...) TANDEM_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TANDEM_RELEASE(...) TANDEM_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TANDEM_NO_THREAD_SAFETY_ANALYSIS TANDEM_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace tandem::concurrency {

class TANDEM_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TANDEM_ACQUIRE() { mutex_.lock(); }
  void Unlock() TANDEM_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a Mutex for a scope; Unlock() ends that early, Lock() takes it again.
class TANDEM_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TANDEM_ACQUIRE(mutex) : mutex_(mutex), held_(true) {
    mutex_.Lock();
  }
  ~MutexLock() TANDEM_RELEASE() {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() TANDEM_RELEASE() {
    held_ = false;
    mutex_.Unlock();
  }
  void Lock() TANDEM_ACQUIRE() {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_;
};

// A Wait may return without a notification: always wait in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) TANDEM_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }

  // False when `timeout` (may be infinite) passed without a notification.
  bool WaitFor(Mutex& mutex, absl::Duration timeout) TANDEM_REQUIRES(mutex) {
    if (timeout >= absl::Hours(24 * 365)) {
      Wait(mutex);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    std::cv_status status = changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout));
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace tandem::concurrency
