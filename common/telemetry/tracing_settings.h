// What the standard variables of OpenTelemetry ask for. We read them ourselves, because the SDK
// does not read all of them as the standard says, and replaces a bad value silently.
//
//   OTEL_SDK_DISABLED                 true: off, whatever the others say
//   OTEL_TRACES_EXPORTER              otlp or none; otlp when an endpoint is set, else none
//   OTEL_EXPORTER_OTLP_ENDPOINT       [http://|https://]HOST:PORT; http://localhost:4317
//   OTEL_EXPORTER_OTLP_INSECURE       for an endpoint without a scheme: true is plaintext; false
//   OTEL_EXPORTER_OTLP_PROTOCOL       grpc
//   OTEL_EXPORTER_OTLP_HEADERS        name=value,…, sent with each export
//   OTEL_EXPORTER_OTLP_TIMEOUT        of one export, in milliseconds; 10000
//   OTEL_EXPORTER_OTLP_CERTIFICATE    a file: who signed the collector's certificate
//   OTEL_TRACES_SAMPLER, …_ARG        tracing_settings.cc names them; parentbased_always_on
//   OTEL_BSP_SCHEDULE_DELAY, _EXPORT_TIMEOUT, _MAX_QUEUE_SIZE, _MAX_EXPORT_BATCH_SIZE
//   OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//
// Each OTEL_EXPORTER_OTLP_x yields to OTEL_EXPORTER_OTLP_TRACES_x.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::telemetry {

struct TracingSettings {
  std::string endpoint;  // HOST:PORT
  bool tls = false;
  std::string certificate;                                   // a path; empty: the machine's own
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  absl::Duration timeout;                                    // of an export

  enum class Sampler { kAlwaysOn, kAlwaysOff, kRatio };
  Sampler sampler = Sampler::kAlwaysOn;  // of a span without a parent, when...
  bool parent_based = true;              // ...this, else of every span
  double ratio = 1;
  std::string sampler_text;  // "parentbased_traceidratio 0.1"

  absl::Duration delay;   // between two exports
  size_t queue_size = 0;  // spans; more are dropped
  size_t batch_size = 0;  // at most queue_size

  std::map<std::string, std::string> resource;  // what the variables add, and win with
};

// The value of a variable; null: there is none.
using Environment = std::function<const char*(const char* name)>;

// Nothing: off. INVALID_ARGUMENT names the variable, its value and what would be right. An empty
// value is none at all, as the standard has it.
absl::StatusOr<std::optional<TracingSettings>> ReadTracingSettings(const Environment& environment);

}  // namespace tandem::telemetry
