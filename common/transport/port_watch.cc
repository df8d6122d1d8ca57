#include "common/transport/port_watch.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/concurrency/system_clock.h"

namespace tandem::transport {

PortWatch::PortWatch(std::function<PortState()> ask, std::function<void(PortState)> changed,
                     absl::Duration every)
    : ask_(std::move(ask)),
      changed_(std::move(changed)),
      every_(every),
      thread_([this] { Run(); }) {}

PortWatch::~PortWatch() {
  {
    concurrency::MutexLock lock(mutex_);
    over_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void PortWatch::Run() {
  concurrency::NameThisThread("port-watch");
  PortState before = PortState::kAdmits;
  while (true) {
    {
      concurrency::MutexLock lock(mutex_);
      const absl::Time next = absl::Now() + every_;
      while (!over_ && absl::Now() < next) wake_.WaitFor(mutex_, next - absl::Now());
      if (over_) return;
    }
    const PortState now = ask_();
    if (now != before) changed_(now);
    before = now;
  }
}

}  // namespace tandem::transport
