// All that look at a target's device: its metrics, and its trace where there is a tracer.
#pragma once

#include <string>
#include <utility>

#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "target_service/answers/step_trace.h"
#include "target_service/answers/target_metrics.h"

namespace tandem::target_service {

// Thread safety: as each of them.
class PassWatchers final : public PassObserver {
 public:
  PassWatchers(telemetry::Tracer* tracer, const concurrency::Clock& clock, std::string model_name)
      : trace_(tracer, clock, std::move(model_name)) {}

  const TargetMetrics& metrics() const { return metrics_; }

  void PassEnds(const EndedPass& pass) override {
    metrics_.PassEnds(pass);
    trace_.PassEnds(pass);
  }
  void PassAnswered() override { trace_.PassAnswered(); }
  void StepAnswered(const AnsweredStep& step) override {
    metrics_.StepAnswered(step);
    trace_.StepAnswered(step);
  }
  void StepDropped(const Work& work) override { trace_.StepDropped(work); }

 private:
  TargetMetrics metrics_;
  StepTrace trace_;
};

}  // namespace tandem::target_service
