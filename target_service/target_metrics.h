// The counters and histograms of a target, in Prometheus' text format. Names start with "tandem:target_".
//
// What the load tells already (passes, busy time, slots, queued rows) is taken from there and not counted
// again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/concurrency/mutex.h"
#include "target_service/pass_observer.h"

namespace prometheus {
class Counter;
class Histogram;
class Registry;
}  // namespace prometheus

namespace tandem::target_service {

// Observed by the device's thread, read from any. In every text the Steps with status OK are the
// observations of the two histograms of Steps.
class TargetMetrics final : public PassObserver {
 public:
  TargetMetrics();
  ~TargetMetrics() override;

  void PassEnds(const EndedPass& pass) override;
  void StepAnswered(const AnsweredStep& step) override;

  // `load`: as of now, with the free slots of anybody.
  std::string Text(const v1::Load& load, size_t active_sequences) const;

 private:
  mutable concurrency::Mutex mutex_;  // so that no text has half of what one call counted
  const std::unique_ptr<prometheus::Registry> registry_;
  // Owned by the registry.
  std::vector<prometheus::Counter*> steps_;  // by status; null: never sent
  prometheus::Counter& candidates_;
  prometheus::Histogram& pass_seconds_;
  prometheus::Histogram& pass_rows_;
  prometheus::Histogram& pass_sequences_;
  prometheus::Histogram& queue_seconds_;
  prometheus::Histogram& compute_seconds_;
};

}  // namespace tandem::target_service
