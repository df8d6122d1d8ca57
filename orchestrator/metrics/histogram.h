// A histogram of whole numbers, as a plain value. It lies under its owner's lock, together with the
// totals that it belongs to, so a scrape never sees one without the other. (A histogram of
// prometheus-cpp has a lock of its own.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/time/time.h"
#include "prometheus/client_metric.h"

namespace tandem::orchestrator {

// The unit of a histogram, and its buckets.
struct HistogramScale {
  std::vector<int64_t>
      bounds;           // rising; a value counts in the first bucket whose bound is not below it
  double per_unit = 1;  // values in a unit of the metric: 1e9 for seconds that are kept as ns
};

// All scales. They are never destroyed.
const HistogramScale& TimeScale();         // telemetry::SecondsBuckets, kept as nanoseconds
const HistogramScale& RequestTimeScale();  // vLLM's for whole requests: up to hours
const HistogramScale& NumberScale();       // telemetry::CountBuckets

// Copyable, never allocates. Not thread-safe.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;

  explicit Histogram(const HistogramScale& scale);  // `scale` outlives this

  void Observe(int64_t value, uint64_t times = 1);
  void Observe(absl::Duration value, uint64_t times = 1) {
    Observe(absl::ToInt64Nanoseconds(value), times);
  }
  // Adds `times` values that sum up to `sum` exactly: a time that several events shared.
  void ObserveShares(absl::Duration sum, uint64_t times);

  uint64_t count() const;
  absl::int128 sum() const { return sum_; }  // sum of the values
  prometheus::ClientMetric::Histogram Export() const;

 private:
  void Count(int64_t value, uint64_t times);

  const HistogramScale* scale_;
  std::array<uint64_t, kMaxBounds + 1> counts_ = {};  // the last one counts values above all bounds
  // 64 bits of nanoseconds would be a few months of a thousand requests at a time.
  absl::int128 sum_ = 0;
};

}  // namespace tandem::orchestrator
