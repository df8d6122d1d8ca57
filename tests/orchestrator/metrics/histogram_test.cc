#include "orchestrator/metrics/histogram.h"

#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

uint64_t Below(const prometheus::ClientMetric::Histogram& histogram, double bound) {
  for (const auto& bucket : histogram.bucket) {
    if (bucket.upper_bound == bound) return bucket.cumulative_count;
  }
  ADD_FAILURE() << "no bucket " << bound;
  return 0;
}

TEST(MetricsHistogram, ABoundIsInItsBucket) {
  Histogram histogram(NumberScale());
  for (const int64_t value : {0, 1, 2, 3, 131072, 131073}) histogram.Observe(value);
  const auto out = histogram.Export();
  EXPECT_EQ(Below(out, 1), 2u);
  EXPECT_EQ(Below(out, 2), 3u);
  EXPECT_EQ(Below(out, 4), 4u);
  EXPECT_EQ(Below(out, 131072), 5u);
  EXPECT_EQ(Below(out, INFINITY), 6u);
  EXPECT_EQ(out.sample_count, 6u);
  EXPECT_EQ(out.sample_sum, 262151);
  EXPECT_EQ(histogram.count(), 6u);
}

TEST(MetricsHistogram, TimesAreSeconds) {
  Histogram histogram(TimeScale());
  histogram.Observe(absl::ZeroDuration());
  histogram.Observe(absl::Microseconds(100));
  histogram.Observe(absl::Nanoseconds(100'001));
  histogram.Observe(absl::Hours(1), 2);
  const auto out = histogram.Export();
  EXPECT_EQ(out.bucket.front().upper_bound, 10e-6);
  EXPECT_EQ(Below(out, 100e-6), 2u);
  EXPECT_EQ(Below(out, 250e-6), 3u);
  EXPECT_EQ(Below(out, 60), 3u);
  EXPECT_EQ(Below(out, INFINITY), 5u);
  EXPECT_DOUBLE_EQ(out.sample_sum, 7200.000200001);
}

// Thirds have no end, but what was shared is all there.
TEST(MetricsHistogram, SharesSumUpToTheWhole) {
  Histogram histogram(TimeScale());
  histogram.ObserveShares(absl::Milliseconds(10), 3);
  histogram.ObserveShares(absl::Milliseconds(5), 0);
  EXPECT_EQ(histogram.count(), 3u);
  EXPECT_EQ(histogram.sum(), 10'000'000);
  EXPECT_EQ(Below(histogram.Export(), 0.005), 3u);
  EXPECT_EQ(Below(histogram.Export(), 0.0025), 0u);
}

TEST(MetricsHistogram, SumsOutliveYearsOfManyRequests) {
  Histogram histogram(TimeScale());
  for (int i = 0; i < 100; ++i) histogram.Observe(absl::Hours(24 * 365 * 10), 1);
  EXPECT_DOUBLE_EQ(histogram.Export().sample_sum, 1000.0 * 365 * 24 * 3600);
}

TEST(MetricsHistogram, AllScalesRise) {
  for (const HistogramScale* scale : {&TimeScale(), &RequestTimeScale(), &NumberScale()}) {
    ASSERT_LE(scale->bounds.size(), Histogram::kMaxBounds);
    for (size_t i = 1; i < scale->bounds.size(); ++i) {
      EXPECT_LT(scale->bounds[i - 1], scale->bounds[i]);
    }
  }
}

}  // namespace
}  // namespace tandem::orchestrator
