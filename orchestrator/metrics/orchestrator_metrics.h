// What the orchestrator counts of its requests and rounds.
#pragma once

#include <vector>

#include "common/concurrency/mutex.h"
#include "orchestrator/metrics/totals.h"
#include "orchestrator/request/request_observer.h"
#include "prometheus/collectable.h"

namespace tandem::orchestrator {

// Thread-safe. A request's or a round's numbers are added under one lock, which a scrape copies them under:
// so every scrape shows whole rounds, and what totals.h says of the numbers holds in each. Nothing is
// allocated for a round.
class OrchestratorMetrics final : public prometheus::Collectable {
 public:
  // For GenerateParts::watchers. This outlives all requests.
  WatchRequest Watcher();

  Totals totals() const TANDEM_EXCLUDES(mutex_);
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  class Request;
  class Sample;

  mutable concurrency::Mutex mutex_;
  Totals totals_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
