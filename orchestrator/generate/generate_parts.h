// The parts that all requests share.
#pragma once

#include <cstdint>
#include <vector>

#include "common/concurrency/clock.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/request_observer.h"

namespace tandem::concurrency {
class Executor;
}

namespace tandem::orchestrator {

class DraftPool;
class TargetPool;

// Outlives all requests.
struct GenerateParts {
  LoopOptions loop;
  uint32_t default_max_tokens = 0;  // of a request that sets none; 0: all that there is room for
  TargetPool* verify = nullptr;
  DraftPool* draft = nullptr;  // null: none is configured
  concurrency::Timers* timers = nullptr;
  const concurrency::Clock* clock = nullptr;
  const concurrency::Clock* cpu_clock = nullptr;  // as in LoopParts
  std::vector<WatchRequest> watchers;
  DecideFunction decide;
  // Requests are checked and begun here. If null, that happens on the thread that brings them.
  concurrency::Executor* workers = nullptr;
};

}  // namespace tandem::orchestrator
