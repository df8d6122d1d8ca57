#include "common/telemetry/metrics.h"

#include <utility>

namespace tandem::telemetry {

prometheus::MetricFamily SingleValue(std::string name, std::string help,
                                     prometheus::MetricType type, double value) {
  prometheus::ClientMetric metric;
  metric.counter.value = value;  // the serializer reads the one of the type
  metric.gauge.value = value;
  return {std::move(name), std::move(help), type, {std::move(metric)}};
}

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const std::string& name,
                                    const std::string& help, const std::vector<double>& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

}  // namespace tandem::telemetry
