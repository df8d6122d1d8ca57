// OpenTelemetry behind tracer.h: for the main functions, and for tests that read spans.
//
//   const concurrency::SteadyClock clock;
//   auto tracing = Tracing::FromEnvironment({.service_name = "tandem-target", …}, clock);
//   options.tracer = (*tracing)->tracer();
//
// The thread's current context and the global provider of OpenTelemetry are never touched.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "opentelemetry/version.h"

OPENTELEMETRY_BEGIN_NAMESPACE
namespace sdk::trace {
class SpanExporter;
}
OPENTELEMETRY_END_NAMESPACE

namespace tandem::telemetry {

// They become the resource's service.name, service.instance.id and service.version.
// OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME win.
struct TracingOptions {
  std::string service_name;
  std::string instance_id;  // empty: none
  std::string version;      // empty: none
};

// Owns the provider. Thread-safe.
class Tracing {
 public:
  // Does what the standard OTEL_* variables say (tracing_settings.h names those that are read).
  // There is no tracer at all unless OTEL_TRACES_EXPORTER=otlp or the variable of an OTLP endpoint
  // is set. A thread of their own sends spans in batches. A collector that is not there costs
  // nothing but the spans, and one line in the log. INVALID_ARGUMENT names a variable, its value
  // and what would be right.
  //
  // The times of spans are those of `clock`, which outlives the spans.
  static absl::StatusOr<std::unique_ptr<Tracing>> FromEnvironment(const TracingOptions& options,
                                                                  const concurrency::Clock& clock);

  // Spans go to `exporter` as they end, on the thread that ends them: for tests. `ratio`: how many
  // of the traces that begin here are sampled.
  static std::unique_ptr<Tracing> ForExporter(
      const TracingOptions& options, const concurrency::Clock& clock,
      std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> exporter, double ratio = 1);

  // Sends what is left, for 2 s at most. Spans that end later are lost.
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // Null: off. Lives as long as this.
  Tracer* tracer();
  // For the line that a service logs at its start: "off", or where spans go, and the sampler.
  std::string Describe() const;
  // Sends what has ended; returns when that is done, or after `within`.
  void Flush(absl::Duration within);

 private:
  struct Parts;
  explicit Tracing(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;  // null: off
};

}  // namespace tandem::telemetry
