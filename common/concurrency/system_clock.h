// The clock and the timers of a running service. Tests use tests/support/fake_clock.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

// std::chrono::steady_clock. Thread-safe.
class SteadyClock final : public Clock {
 public:
  Instant Now() const override;

  // The one of whoever was given none. Lives as long as the process.
  static const SteadyClock& Default();
};

// Gives the calling thread the name that ps and gdb show; at most 15 characters count.
void NameThisThread(const std::string& name);

// One thread that sleeps until the next timer is due. Thread-safe.
class ThreadTimers final : public Timers {
 public:
  // `name`: the thread's.
  explicit ThreadTimers(std::string name = "timers");
  // Forgets all timers that have not fired, and waits for the one that is running. Not from a
  // timer's own function.
  ~ThreadTimers() override;

  // Timers that are due at the same time fire in the order they were set. After(ZeroDuration) is
  // legal; the function never runs inside After.
  TimerId After(absl::Duration delay, std::function<void()> function) override;
  void Cancel(TimerId id) override;

 private:
  void Run(const std::string& name);

  SteadyClock clock_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ TANDEM_GUARDED_BY(mutex_) = false;
  TimerId last_id_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<Instant, TimerId>, std::function<void()>> waiting_
      TANDEM_GUARDED_BY(mutex_);                              // in the order in which they fire
  std::map<TimerId, Instant> due_ TANDEM_GUARDED_BY(mutex_);  // of those in waiting_
  std::thread thread_;                                        // the last member: it uses all others
};

}  // namespace tandem::concurrency
