#include "orchestrator/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/telemetry/buckets.h"

namespace tandem::orchestrator {
namespace {

HistogramScale Scale(const std::vector<double>& bounds, double per_unit) {
  TANDEM_CHECK(bounds.size() <= Histogram::kMaxBounds);
  HistogramScale scale;
  for (const double bound : bounds) scale.bounds.push_back(std::llround(bound * per_unit));
  scale.per_unit = per_unit;
  return scale;
}

}  // namespace

const HistogramScale& TimeScale() {
  static const auto* scale = new HistogramScale(Scale(telemetry::SecondsBuckets(), 1e9));
  return *scale;
}

const HistogramScale& RequestTimeScale() {
  static const auto* scale =
      new HistogramScale(Scale({0.001, 0.01, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5, 5,    10,
                                15,    20,   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680},
                               1e9));
  return *scale;
}

const HistogramScale& NumberScale() {
  static const auto* scale = new HistogramScale(Scale(telemetry::CountBuckets(), 1));
  return *scale;
}

Histogram::Histogram(const HistogramScale& scale) : scale_(&scale) {}

void Histogram::Count(int64_t value, uint64_t times) {
  const auto& bounds = scale_->bounds;
  const auto it = std::lower_bound(bounds.begin(), bounds.end(), value);
  counts_[static_cast<size_t>(it - bounds.begin())] += times;
}

void Histogram::Observe(int64_t value, uint64_t times) {
  Count(value, times);
  sum_ += absl::int128(value) * times;
}

void Histogram::ObserveShares(absl::Duration sum, uint64_t times) {
  if (times == 0) return;
  const int64_t value = absl::ToInt64Nanoseconds(sum);
  Count(value / static_cast<int64_t>(times), times);
  sum_ += value;
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const uint64_t bucket : counts_) count += bucket;
  return count;
}

prometheus::ClientMetric::Histogram Histogram::Export() const {
  prometheus::ClientMetric::Histogram histogram;
  uint64_t below = 0;
  for (size_t i = 0; i < scale_->bounds.size(); ++i) {
    below += counts_[i];
    histogram.bucket.push_back({below, static_cast<double>(scale_->bounds[i]) / scale_->per_unit});
  }
  below += counts_[scale_->bounds.size()];
  histogram.bucket.push_back({below, std::numeric_limits<double>::infinity()});
  histogram.sample_count = below;
  histogram.sample_sum = static_cast<double>(sum_) / scale_->per_unit;
  return histogram;
}

}  // namespace tandem::orchestrator
