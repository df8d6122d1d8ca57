#include "common/scheduling/cost_curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tandem::scheduling {
namespace {

constexpr absl::Duration kMicrosecond = absl::Microseconds(1);

// A curve that was measured at its points.
CostCurve Measured(int max_rows, const std::function<double(int)>& microseconds) {
  CostCurve curve(max_rows);
  for (int rows = 1; rows < max_rows; rows *= 2) {
    curve.Observe(rows, microseconds(rows) * kMicrosecond);
  }
  curve.Observe(max_rows, microseconds(max_rows) * kMicrosecond);
  return curve;
}

double Microseconds(absl::Duration time) { return absl::ToDoubleMicroseconds(time); }

TEST(CostCurve, NothingObserved) {
  CostCurve curve(100);
  EXPECT_TRUE(curve.empty());
  EXPECT_EQ(curve.Estimate(5), absl::ZeroDuration());
  EXPECT_EQ(curve.EfficientRows(0.1), 100);
}

TEST(CostCurve, PointsAndStraightLinesBetween) {
  CostCurve curve = Measured(100, [](int rows) { return 100 + 10 * rows; });
  std::vector<int> rows;
  for (const CostCurve::Point& point : curve.Points()) rows.push_back(point.rows);
  EXPECT_EQ(rows, (std::vector<int>{1, 2, 4, 8, 16, 32, 64, 100}));
  for (int r = 1; r <= 100; ++r) {
    EXPECT_NEAR(Microseconds(curve.Estimate(r)), 100 + 10 * r, 0.01) << r;
  }
}

TEST(CostCurve, PartlyObserved) {
  CostCurve curve(512);
  curve.Observe(4, 40 * kMicrosecond);
  curve.Observe(8, 60 * kMicrosecond);
  EXPECT_EQ(curve.Points().size(), 2u);
  EXPECT_NEAR(Microseconds(curve.Estimate(1)), 40, 0.01);
  EXPECT_NEAR(Microseconds(curve.Estimate(6)), 50, 0.01);
  EXPECT_NEAR(Microseconds(curve.Estimate(80)), 600, 0.01);
}

TEST(CostCurve, EfficientRowsAtTheKnee) {
  // 100 µs to begin with and 10 per row: the best is 10.2 per row, at 512.
  CostCurve line = Measured(512, [](int rows) { return 100 + 10 * rows; });
  const double best = (100.0 + 5120) / 512;
  for (double loss : {0.1, 0.25, 0.5, 1.0}) {
    const int rows = line.EfficientRows(loss);
    EXPECT_LE((100.0 + 10 * rows) / rows, best * (1 + loss) + 1e-9);
    EXPECT_GT((100.0 + 10 * (rows - 1)) / (rows - 1), best * (1 + loss));
  }
  // Without a start-up cost one row is as good as many; where time is flat, all are best.
  EXPECT_EQ(Measured(512, [](int rows) { return 10.0 * rows; }).EfficientRows(0.1), 1);
  EXPECT_GE(Measured(512, [](int) { return 700.0; }).EfficientRows(0.1), 512 / 1.1 - 1);
  // Flat to 64 rows and linear from there: the knee.
  CostCurve knee = Measured(512, [](int rows) { return 10.0 * std::max(rows, 64); });
  EXPECT_EQ(knee.EfficientRows(0), 64);
  EXPECT_EQ(knee.EfficientRows(0.25), 52);
}

TEST(CostCurve, WhatAPassCostsBesidesMakesLargerOnesWorthWhile) {
  CostCurve line = Measured(256, [](int rows) { return 40.0 * rows; });
  EXPECT_EQ(line.EfficientRows(0.125), 1);
  const double best = (500 + 40.0 * 256) / 256;
  const int rows = line.EfficientRows(0.125, 500 * kMicrosecond);
  EXPECT_LE((500 + 40.0 * rows) / rows, best * 1.125 + 1e-9);
  EXPECT_GT((500 + 40.0 * (rows - 1)) / (rows - 1), best * 1.125);
}

// While small passes are in use, all of them disturbed, large ones must not come to look cheap.
TEST(CostCurve, ABusyMachineIsSlowerAtSizesThatAreNotTried) {
  std::mt19937 random(5);
  CostCurve curve = Measured(256, [](int rows) { return 150 + 40.0 * rows; });
  const int before = curve.EfficientRows(0.5);
  for (int i = 0; i < 5000; ++i) {
    const int rows = 2 + static_cast<int>(random() % 10);
    curve.Observe(rows, 3 * (150 + 40 * rows) * kMicrosecond);
  }
  EXPECT_NEAR(Microseconds(curve.Estimate(8)), 3 * 470, 150);
  EXPECT_LE(curve.EfficientRows(0.5), 2 * before);
  // And back: the device is its own again.
  for (int i = 0; i < 500; ++i) {
    const int rows = 2 + static_cast<int>(random() % 10);
    curve.Observe(rows, (150 + 40 * rows) * kMicrosecond);
  }
  EXPECT_NEAR(Microseconds(curve.Estimate(8)), 470, 30);
  EXPECT_LE(curve.EfficientRows(0.5), before + 3);
}

TEST(CostCurve, RowsWithinATime) {
  CostCurve curve = Measured(100, [](int rows) { return 100 + 10 * rows; });
  EXPECT_EQ(curve.RowsWithin(109 * kMicrosecond), 0);
  EXPECT_EQ(curve.RowsWithin(110 * kMicrosecond), 1);
  EXPECT_EQ(curve.RowsWithin(478 * kMicrosecond), 37);
  EXPECT_EQ(curve.RowsWithin(absl::Seconds(1)), 100);
  EXPECT_EQ(Measured(100, [](int) { return 50.0; }).RowsWithin(50 * kMicrosecond), 100);
  EXPECT_EQ(CostCurve(77).RowsWithin(absl::ZeroDuration()), 77);
}

TEST(CostCurve, NeverFallsWithRows) {
  CostCurve curve(64);
  curve.Observe(1, 900 * kMicrosecond);  // the very first pass waits for cold memory
  curve.Observe(8, 100 * kMicrosecond);
  curve.Observe(64, 400 * kMicrosecond);
  for (int rows = 2; rows <= 64; ++rows) EXPECT_GE(curve.Estimate(rows), curve.Estimate(rows - 1));
  EXPECT_NEAR(Microseconds(curve.Estimate(1)), 100, 0.01);
}

TEST(CostCurve, OneInterruptedPassHardlyMovesIt) {
  CostCurve curve = Measured(64, [](int rows) { return 100 + 10 * rows; });
  curve.Observe(16, absl::Seconds(1));
  EXPECT_NEAR(Microseconds(curve.Estimate(16)), 260, 260 * 0.013);
}

// A busy machine: a third of the passes takes up to five times as long.
TEST(CostCurve, FollowsTheUndisturbedTime) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  CostCurve curve = Measured(128, [](int rows) { return 3 * (100 + 10.0 * rows); });
  for (int i = 0; i < 4000; ++i) {
    const int rows = 1 + static_cast<int>(random() % 128);
    const double disturbed = unit(random) < 0.33 ? 1 + 4 * unit(random) : 1;
    curve.Observe(rows, (100 + 10 * rows) * disturbed * kMicrosecond);
  }
  for (int rows : {2, 5, 17, 64, 128}) {
    const double truth = 100 + 10 * rows;
    EXPECT_GT(Microseconds(curve.Estimate(rows)), 0.9 * truth) << rows;
    EXPECT_LT(Microseconds(curve.Estimate(rows)), 1.25 * truth) << rows;
  }
}

TEST(CostCurve, FollowsADeviceThatGetsSlower) {
  CostCurve curve = Measured(64, [](int rows) { return 100 + 10 * rows; });
  for (int i = 0; i < 400; ++i) curve.Observe(16, 780 * kMicrosecond);
  EXPECT_NEAR(Microseconds(curve.Estimate(16)), 780, 8);
}

TEST(CostCurve, StandingClockIsNoTrouble) {
  CostCurve curve(24);
  for (int rows = 1; rows <= 24; ++rows) curve.Observe(rows, absl::ZeroDuration());
  EXPECT_GE(curve.EfficientRows(0.1), 1);
  EXPECT_LE(curve.EfficientRows(0.1), 24);
  EXPECT_LT(curve.Estimate(24), kMicrosecond);
}

TEST(CostCurve, DiffersByShare) {
  const std::vector<CostCurve::Point> a = {{1, 100 * kMicrosecond}, {2, 110 * kMicrosecond}};
  std::vector<CostCurve::Point> b = a;
  EXPECT_FALSE(CostCurve::Differs(a, b, 0));
  b[1].time = 130 * kMicrosecond;
  EXPECT_FALSE(CostCurve::Differs(a, b, 0.2));
  EXPECT_FALSE(CostCurve::Differs(b, a, 0.2));
  b[1].time = 140 * kMicrosecond;
  EXPECT_TRUE(CostCurve::Differs(a, b, 0.2));
  EXPECT_TRUE(CostCurve::Differs(b, a, 0.2));
  b.pop_back();
  EXPECT_TRUE(CostCurve::Differs(a, b, 0.2));
}

}  // namespace
}  // namespace tandem::scheduling
