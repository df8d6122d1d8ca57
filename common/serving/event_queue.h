// From the sessions to the thread of a service: what gRPC's threads hand over.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::serving {

// Thread-safe. First in, first out.
template <typename Event>
class EventQueue {
 public:
  // A request is refused while so many events wait. `too_many`: what its client is told then.
  EventQueue(size_t max_waiting, std::string too_many)
      : max_waiting_(max_waiting), too_many_(std::move(too_many)) {}

  // RESOURCE_EXHAUSTED when too many wait: the client sends without waiting for answers. CANCELLED
  // once closed.
  absl::Status PushRequest(Event event) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    if (closed_) return Closed();
    if (events_.size() >= max_waiting_) return absl::ResourceExhaustedError(too_many_);
    events_.push_back(std::move(event));
    lock.Unlock();
    filled_.NotifyOne();
    return absl::OkStatus();
  }
  // For all else. Never refused while open; dropped once closed.
  void Push(Event event) TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    if (closed_) return;
    events_.push_back(std::move(event));
    lock.Unlock();
    filled_.NotifyOne();
  }

  std::optional<Event> TryPop() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    return Take();
  }
  // Waits. CANCELLED once closed and empty; nothing when `timeout` (may be infinite) has passed.
  absl::StatusOr<std::optional<Event>> PopFor(absl::Duration timeout) TANDEM_EXCLUDES(mutex_) {
    const auto began = std::chrono::steady_clock::now();
    concurrency::MutexLock lock(mutex_);
    while (!closed_ && events_.empty()) {
      const absl::Duration left =
          timeout - absl::FromChrono(std::chrono::steady_clock::now() - began);
      if (left <= absl::ZeroDuration()) return std::optional<Event>();
      filled_.WaitFor(mutex_, left);
    }
    if (events_.empty()) return Closed();
    return Take();
  }

  // What was pushed before is still given out.
  void Close() TANDEM_EXCLUDES(mutex_) {
    concurrency::MutexLock lock(mutex_);
    closed_ = true;
    lock.Unlock();
    filled_.NotifyAll();
  }

 private:
  static absl::Status Closed() { return absl::CancelledError("the service's thread ends"); }

  std::optional<Event> Take() TANDEM_REQUIRES(mutex_) {
    if (events_.empty()) return std::nullopt;
    std::optional<Event> event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  const size_t max_waiting_;
  const std::string too_many_;
  concurrency::Mutex mutex_;
  concurrency::CondVar filled_;  // there is an event, or the queue is closed
  std::deque<Event> events_ TANDEM_GUARDED_BY(mutex_);
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::serving
