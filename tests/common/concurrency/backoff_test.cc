#include "common/concurrency/backoff.h"

#include <gtest/gtest.h>

namespace tandem::concurrency {
namespace {

TEST(BackoffTest, GrowsFromTheFirstDelayToTheLongest) {
  const Backoff backoff{absl::Milliseconds(100), absl::Seconds(2), 2.0, 0.2};
  EXPECT_EQ(absl::ToInt64Milliseconds(backoff.Delay(1, 0.5)), 100);
  EXPECT_EQ(absl::ToInt64Milliseconds(backoff.Delay(2, 0.5)), 200);
  EXPECT_EQ(absl::ToInt64Milliseconds(backoff.Delay(3, 0.5)), 400);
  EXPECT_EQ(absl::ToInt64Milliseconds(backoff.Delay(1000, 0.5)), 2000);
}

TEST(BackoffTest, JitterStaysInItsShare) {
  const Backoff backoff{absl::Milliseconds(100), absl::Seconds(2), 2.0, 0.2};
  EXPECT_NEAR(absl::ToDoubleMilliseconds(backoff.Delay(1, 0.0)), 80, 1e-6);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(backoff.Delay(1, 0.999999)), 120, 1e-3);
}

}  // namespace
}  // namespace tandem::concurrency
