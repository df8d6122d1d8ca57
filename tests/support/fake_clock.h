// A clock and timers that a test holds in its hand.
//
//   FakeClock clock;
//   FakeTimers timers(clock);
//   Loop loop(clock, timers, …);
//   timers.Advance(absl::Milliseconds(500));   // runs what falls due, in order, on this thread
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"

namespace tandem::testing {

// Thread-safe. Starts at an odd hour, so that nobody takes 0 for "never".
class FakeClock final : public concurrency::Clock {
 public:
  concurrency::Instant Now() const override {
    concurrency::MutexLock lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    TANDEM_CHECK(by >= absl::ZeroDuration()) << "a steady clock never goes back";
    concurrency::MutexLock lock(mutex_);
    now_ += by;
  }
  // Where another thread has moved it further, it stays.
  void AdvanceTo(concurrency::Instant time) {
    concurrency::MutexLock lock(mutex_);
    now_ = std::max(now_, time);
  }

 private:
  mutable concurrency::Mutex mutex_;
  concurrency::Instant now_ TANDEM_GUARDED_BY(mutex_){absl::Hours(1000)};
};

// Thread-safe. Functions run inside Advance, on the thread that calls it, with no lock held; while
// one runs the clock shows the time at which it was due. Ties fire in the order they were set.
class FakeTimers final : public concurrency::Timers {
 public:
  explicit FakeTimers(FakeClock& clock) : clock_(clock) {}

  concurrency::TimerId After(absl::Duration delay, std::function<void()> function) override {
    if (delay < absl::ZeroDuration()) delay = absl::ZeroDuration();
    concurrency::MutexLock lock(mutex_);
    concurrency::TimerId id = ++last_id_;
    waiting_.emplace(std::make_pair(clock_.Now() + delay, id), std::move(function));
    return id;
  }

  void Cancel(concurrency::TimerId id) override {
    std::function<void()> cancelled;  // destroyed after the lock is free
    concurrency::MutexLock lock(mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (it->first.second != id) continue;
      cancelled = std::move(it->second);
      waiting_.erase(it);
      break;
    }
    lock.Unlock();
  }

  // Moves the clock on by `by`, stopping at each timer on the way, those too that are set
  // meanwhile.
  void Advance(absl::Duration by) {
    concurrency::Instant end = clock_.Now() + by;
    while (true) {
      concurrency::MutexLock lock(mutex_);
      if (waiting_.empty() || waiting_.begin()->first.first > end) break;
      concurrency::Instant due = waiting_.begin()->first.first;
      std::function<void()> function = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      lock.Unlock();
      clock_.AdvanceTo(due);
      function();
    }
    clock_.AdvanceTo(end);
  }

  // Moves to the next timer and runs it and those due at the same time; false when none is set.
  bool AdvanceToNext() {
    concurrency::Instant due = next_due();
    if (due == concurrency::Instant::InfiniteFuture()) return false;
    concurrency::Instant now = clock_.Now();
    Advance(due > now ? due - now : absl::ZeroDuration());
    return true;
  }

  // Timers that are set and have not fired.
  size_t waiting() const {
    concurrency::MutexLock lock(mutex_);
    return waiting_.size();
  }
  // On the fake clock; infinite when none is set.
  concurrency::Instant next_due() const {
    concurrency::MutexLock lock(mutex_);
    return waiting_.empty() ? concurrency::Instant::InfiniteFuture()
                            : waiting_.begin()->first.first;
  }

 private:
  FakeClock& clock_;
  mutable concurrency::Mutex mutex_;
  concurrency::TimerId last_id_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<concurrency::Instant, concurrency::TimerId>, std::function<void()>> waiting_
      TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::testing
