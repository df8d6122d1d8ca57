// Waiting for what another thread or process does, where nothing can notify.
#pragma once

#include <chrono>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem::testing {

// True as soon as `condition()` is; false after `patience`. The condition decides, not the time: a
// slow machine only waits longer.
template <typename Condition>
bool WaitUntil(Condition condition, absl::Duration patience = absl::Seconds(30)) {
  const absl::Time deadline = absl::Now() + patience;
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace tandem::testing
