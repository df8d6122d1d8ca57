// The metrics of a target, but for those that every process has (common/telemetry/metrics_text.h).
// Names start with "tandem:target_".
//
// Slots and queued rows are taken from the load. Passes and busy time are not, though it has them:
// they are the histogram's, so that they fit to it in every scrape.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/concurrency/mutex.h"
#include "prometheus/metric_family.h"
#include "target_service/answers/pass_observer.h"
#include "target_service/engine/engine.h"

namespace prometheus {
class Counter;
class Histogram;
class Registry;
}  // namespace prometheus

namespace tandem::target_service {

// Observed by the device's thread, read from any. In every scrape the Steps with status OK are the
// observations of the two histograms of Steps, and passes those of the three of passes.
class TargetMetrics final : public PassObserver {
 public:
  TargetMetrics();
  ~TargetMetrics() override;

  void PassEnds(const EndedPass& pass) override;
  void StepAnswered(const AnsweredStep& step) override;

  // `load`: as of the device's last look around, with the free slots of anybody.
  std::vector<prometheus::MetricFamily> Collect(const v1::Load& load, size_t active_sequences,
                                                const EngineInfo& engine = {}) const;

 private:
  mutable concurrency::Mutex mutex_;  // so that no scrape has half of what one call counted
  const std::unique_ptr<prometheus::Registry> registry_;
  // Owned by the registry.
  std::vector<prometheus::Counter*> steps_;  // by status; null: never sent
  prometheus::Counter& candidates_;
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  prometheus::Histogram& pass_seconds_;
  prometheus::Histogram& pass_rows_;
  prometheus::Histogram& pass_sequences_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& compute_seconds_;
};

}  // namespace tandem::target_service
