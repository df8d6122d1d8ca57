// Builders for the services' metrics, beside those of prometheus-cpp.
//
// Thread-safe: no state of their own.
#pragma once

#include <string>
#include <vector>

#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"

namespace tandem::telemetry {

// One series without labels, whose value is known already. `type`: Counter or Gauge.
prometheus::MetricFamily SingleValue(std::string name, std::string help,
                                     prometheus::MetricType type, double value);

// A histogram without labels. The registry owns it.
prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const std::string& name,
                                    const std::string& help, const std::vector<double>& buckets);

}  // namespace tandem::telemetry
