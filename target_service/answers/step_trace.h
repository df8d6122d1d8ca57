// The spans of a target: `target.step`, a child of the wait for its verdict, and `target.pass`, a
// root span that links to the waits that the pass served (common/telemetry/attributes.h).
//
// A Step's span links to the pass that decided it, and links are given at a span's start. So it is
// made when the Step is answered, with its times in the past. What is not sampled costs a
// comparison.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "target_service/answers/pass_observer.h"

namespace tandem::target_service {

// Thread safety: the device's thread alone.
class StepTrace final : public PassObserver {
 public:
  // Neither is owned. `tracer` null: nothing is traced. `clock`: the device's. `model_name`: what
  // the model is called; may be empty.
  StepTrace(telemetry::Tracer* tracer, const concurrency::Clock& clock, std::string model_name)
      : tracer_(tracer), clock_(clock), model_name_(std::move(model_name)) {}

  void PassEnds(const EndedPass& pass) override;
  void PassAnswered() override { pass_ = {}; }
  void StepAnswered(const AnsweredStep& step) override;
  void StepDropped(const Work& work) override;

 private:
  // A Step that came over the stream Verify.
  std::unique_ptr<telemetry::Span> StartStep(concurrency::Instant arrived,
                                             const telemetry::SpanContext& parent,
                                             absl::Span<const telemetry::SpanContext> links) const;

  // The pass whose Steps are being answered.
  struct Pass {
    telemetry::SpanContext context;  // not valid: there is none, or no sampled Step is in it
    uint64_t id = 0;
    uint32_t rows = 0;
    uint32_t sequences = 0;
  };

  telemetry::Tracer* const tracer_;
  const concurrency::Clock& clock_;
  const std::string model_name_;
  Pass pass_;
  std::vector<telemetry::SpanContext> links_;  // kept for its memory
};

}  // namespace tandem::target_service
