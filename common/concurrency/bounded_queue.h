// A queue with a limit, between threads that may block.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"

namespace tandem::concurrency {

// First in, first out. Thread-safe, any number of threads on both sides.
//
// Close ends it with a status: whoever is blocked, on either side, wakes and gets that status. What
// was accepted before is still given out, and only then do readers get the status, unless Close
// discards. An item that is not accepted is destroyed.
template <typename T>
class BoundedQueue {
 public:
  enum class AtClose { kKeep, kDiscard };

  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { TANDEM_CHECK(capacity > 0); }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Waits for room. The status of Close once closed.
  absl::Status Push(T item) TANDEM_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      while (closed_.ok() && items_.size() >= capacity_) room_.Wait(mutex_);
      if (!closed_.ok()) return closed_;
      items_.push_back(std::move(item));
    }
    filled_.NotifyOne();
    return absl::OkStatus();
  }

  // RESOURCE_EXHAUSTED when there is no room.
  absl::Status TryPush(T item) TANDEM_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (!closed_.ok()) return closed_;
      if (items_.size() >= capacity_) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the queue is full (", capacity_, " items)"));
      }
      items_.push_back(std::move(item));
    }
    filled_.NotifyOne();
    return absl::OkStatus();
  }

  // Waits for an item.
  absl::StatusOr<T> Pop() TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (closed_.ok() && items_.empty()) filled_.Wait(mutex_);
    if (items_.empty()) return closed_;
    T item = std::move(items_.front());
    items_.pop_front();
    lock.Unlock();
    room_.NotifyOne();
    return item;
  }

  // Waits for an item, but no longer than `timeout` (may be infinite): then there is none.
  absl::StatusOr<std::optional<T>> PopFor(absl::Duration timeout) TANDEM_EXCLUDES(mutex_) {
    const auto began = std::chrono::steady_clock::now();
    MutexLock lock(mutex_);
    while (closed_.ok() && items_.empty()) {
      const absl::Duration left =
          timeout - absl::FromChrono(std::chrono::steady_clock::now() - began);
      if (left <= absl::ZeroDuration()) return std::optional<T>();
      filled_.WaitFor(mutex_, left);
    }
    if (items_.empty()) return closed_;
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    lock.Unlock();
    room_.NotifyOne();
    return item;
  }

  // Nothing when the queue is empty, closed or not.
  std::optional<T> TryPop() TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (items_.empty()) return std::nullopt;
    std::optional<T> item = std::move(items_.front());
    items_.pop_front();
    lock.Unlock();
    room_.NotifyOne();
    return item;
  }

  // Waits for at least one item and takes all there are.
  absl::StatusOr<std::vector<T>> PopAll() TANDEM_EXCLUDES(mutex_) {
    std::deque<T> taken;
    {
      MutexLock lock(mutex_);
      while (closed_.ok() && items_.empty()) filled_.Wait(mutex_);
      if (items_.empty()) return closed_;
      taken.swap(items_);
    }
    room_.NotifyAll();
    return std::vector<T>(std::make_move_iterator(taken.begin()),
                          std::make_move_iterator(taken.end()));
  }

  // `status` is not OK. The first Close decides it; a later one can still discard.
  void Close(absl::Status status, AtClose items = AtClose::kKeep) TANDEM_EXCLUDES(mutex_) {
    TANDEM_CHECK(!status.ok()) << "a queue closes with the reason that its users get";
    std::deque<T> discarded;  // destroyed with no lock held
    {
      MutexLock lock(mutex_);
      if (closed_.ok()) closed_ = std::move(status);
      if (items == AtClose::kDiscard) discarded.swap(items_);
    }
    room_.NotifyAll();
    filled_.NotifyAll();
  }

  size_t size() const TANDEM_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar room_;    // there is room, or the queue is closed
  CondVar filled_;  // there is an item, or the queue is closed
  std::deque<T> items_ TANDEM_GUARDED_BY(mutex_);
  absl::Status closed_ TANDEM_GUARDED_BY(mutex_);  // OK while open
};

}  // namespace tandem::concurrency
