// From the sessions to the thread of a service: what gRPC's threads hand over.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/bounded_queue.h"

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
  absl::Status PushRequest(Event event) {
    if (queue_.size() >= max_waiting_) return absl::ResourceExhaustedError(too_many_);
    return queue_.TryPush(std::move(event));
  }
  // For all else. Never refused while open; dropped once closed.
  void Push(Event event) { queue_.TryPush(std::move(event)).IgnoreError(); }

  std::optional<Event> TryPop() { return queue_.TryPop(); }
  // Waits. CANCELLED once closed and empty; nothing when `timeout` (may be infinite) has passed.
  absl::StatusOr<std::optional<Event>> PopFor(absl::Duration timeout) {
    return queue_.PopFor(timeout);
  }

  void Close() { queue_.Close(absl::CancelledError("the service's thread ends")); }

 private:
  const size_t max_waiting_;
  const std::string too_many_;
  // Room for the ends of far more streams than requests may wait.
  concurrency::BoundedQueue<Event> queue_{size_t{1} << 20};
};

}  // namespace tandem::serving
