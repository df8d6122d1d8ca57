// Asks again and again how a port is.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/transport/acceptor.h"

namespace tandem::transport {

// Begins with a port that admits. Thread-safe.
class PortWatch {
 public:
  // A thread calls `ask`, waits `every`, and begins again. It tells `changed` when the answer is
  // another one than before.
  PortWatch(std::function<PortState()> ask, std::function<void(PortState)> changed,
            absl::Duration every);
  // Waits for the question that is being asked.
  ~PortWatch();
  PortWatch(const PortWatch&) = delete;
  PortWatch& operator=(const PortWatch&) = delete;

 private:
  void Run() TANDEM_EXCLUDES(mutex_);

  const std::function<PortState()> ask_;
  const std::function<void(PortState)> changed_;
  const absl::Duration every_;
  concurrency::Mutex mutex_;
  concurrency::CondVar wake_;
  bool over_ TANDEM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace tandem::transport
