// tracer.h on OpenTelemetry's SDK. tracing.h makes it.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "opentelemetry/nostd/shared_ptr.h"
#include "opentelemetry/sdk/trace/sampler.h"
#include "opentelemetry/trace/tracer.h"

namespace tandem::telemetry {

// A span without a parent that has links is sampled: its links are those of sampled spans. `others`
// decides about every other one.
std::unique_ptr<opentelemetry::sdk::trace::Sampler> SampledByLinks(
    std::unique_ptr<opentelemetry::sdk::trace::Sampler> others);

// Thread-safe.
class OtelTracer final : public Tracer {
 public:
  // `parent_decides`: a parent that is not sampled has no sampled children, so the SDK need not be
  // asked.
  OtelTracer(const concurrency::Clock& clock,
             opentelemetry::nostd::shared_ptr<opentelemetry::trace::Tracer> tracer,
             bool parent_decides);

  std::unique_ptr<Span> Start(const SpanStart& start) override;

 private:
  const concurrency::Clock& clock_;
  const absl::Time epoch_;  // when `clock` stood at 0
  const opentelemetry::nostd::shared_ptr<opentelemetry::trace::Tracer> tracer_;
  const bool parent_decides_;
};

}  // namespace tandem::telemetry
