// The orchestrator's counters of requests and rounds.
#pragma once

#include <vector>

#include "common/concurrency/mutex.h"
#include "orchestrator/metrics/totals.h"
#include "orchestrator/request/request_observer.h"
#include "prometheus/collectable.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// Thread-safe. The numbers of a request or a round are added under one lock, and a scrape copies
// them under the same lock. So every scrape shows whole rounds, and the invariants of totals.h hold
// in each. Counting a round allocates nothing.
class OrchestratorMetrics final : public prometheus::Collectable {
 public:
  // For GenerateParts::watchers. This object outlives all requests.
  WatchRequest Watcher();

  Totals totals() const TANDEM_EXCLUDES(mutex_);
  v1::SpeculationTotals Speculation() const TANDEM_EXCLUDES(mutex_);  // for Describe
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  class Request;
  class Sample;

  mutable concurrency::Mutex mutex_;
  Totals totals_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
