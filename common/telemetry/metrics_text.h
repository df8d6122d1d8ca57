// The text of GET /metrics: a service's own metrics, and those that every process has.
//
//   tandem:build_info{service,version,instance}  1
//   process_cpu_seconds_total                    user and system
//   process_resident_memory_bytes
//   process_start_time_seconds                   since 1970
//
// Thread-safe: pure functions, but for what they read of the process.
#pragma once

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace tandem::telemetry {

struct ProcessInfo {
  std::string service;   // "target"
  std::string version;   // base::Version()
  std::string instance;  // which one of them, e.g. its address
  // What the model is called: the label model_name of all that the service counts, as vLLM has it.
  // Empty: there is none, and so no label.
  std::string model_name = {};
};

// Prometheus' text format, version 0.0.4. `families`: the service's. They may be a snapshot made by
// hand, for example where identities between metrics must hold in every scrape.
std::string MetricsText(std::vector<prometheus::MetricFamily> families, const ProcessInfo& process);

}  // namespace tandem::telemetry
