#include "common/scheduling/cost_curve.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace tandem::scheduling {
namespace {

// Steps as shares of the difference: when a pass was shorter than expected, and when it was longer;
// of a longer one so much is counted at most, as a share of what was expected.
constexpr double kFaster = 0.2;
constexpr double kSlower = 0.05;
constexpr double kMaxDifference = 0.25;
// The whole curve takes this share of a step, the points near it the rest.
constexpr double kOfLevel = 0.8;
constexpr double kMinSeconds = 1e-9;  // a clock may stand still

}  // namespace

CostCurve::CostCurve(int max_rows) {
  TANDEM_CHECK(max_rows >= 1) << max_rows;
  for (int rows = 1; rows < max_rows; rows *= 2) rows_.push_back(rows);
  rows_.push_back(max_rows);
  seconds_.assign(rows_.size(), -1);
}

void CostCurve::Move(size_t point, double weight, double step, double seconds) {
  if (seconds_[point] < 0) {
    // Only the nearer of two points is set by what was seen between them.
    if (weight >= 0.5) seconds_[point] = seconds / level_;
    return;
  }
  seconds_[point] = std::max(kMinSeconds, seconds_[point] * (1 + weight * step));
}

// What was seen last counts: points that contradict it give way.
void CostCurve::KeepRising(size_t point) {
  const double seconds = seconds_[point];
  if (seconds < 0) return;
  for (size_t i = 0; i < point; ++i) seconds_[i] = std::min(seconds_[i], seconds);
  for (size_t i = point + 1; i < seconds_.size(); ++i) {
    if (seconds_[i] >= 0) seconds_[i] = std::max(seconds_[i], seconds);
  }
}

void CostCurve::Observe(int rows, absl::Duration time) {
  TANDEM_CHECK(rows >= 1 && rows <= max_rows()) << rows << " rows";
  const double seconds = std::max(kMinSeconds, absl::ToDoubleSeconds(time));
  const size_t above =
      static_cast<size_t>(std::lower_bound(rows_.begin(), rows_.end(), rows) - rows_.begin());
  const double expected = EstimateSeconds(Points(), rows);
  const double ratio = expected > 0 ? seconds / expected : 1;
  const double all =
      ratio < 1 ? kFaster * (ratio - 1) : kSlower * std::min(ratio - 1, kMaxDifference);
  const bool exact = rows_[above] == rows;
  double step = 0;
  if (seconds_[above] >= 0 && (exact || seconds_[above - 1] >= 0)) {
    level_ *= 1 + kOfLevel * all;
    step = (1 - kOfLevel) * all;
  }
  if (exact) {
    Move(above, 1, step, seconds);
    KeepRising(above);
    return;
  }
  const double to_above = std::log(static_cast<double>(rows) / rows_[above - 1]) /
                          std::log(static_cast<double>(rows_[above]) / rows_[above - 1]);
  // A point that is first seen through its neighbour's rows is what the curve makes of them.
  Move(above - 1, 1 - to_above, step, seconds);
  Move(above, to_above, step, seconds * rows_[above] / rows);
  KeepRising(above - 1);
  KeepRising(above);
}

std::vector<CostCurve::Point> CostCurve::Points() const {
  std::vector<Point> points;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (seconds_[i] >= 0) points.push_back({rows_[i], absl::Seconds(level_ * seconds_[i])});
  }
  return points;
}

double CostCurve::EstimateSeconds(const std::vector<Point>& points, int rows) {
  if (points.empty()) return 0;
  auto above = std::lower_bound(points.begin(), points.end(), rows,
                                [](const Point& point, int r) { return point.rows < r; });
  if (above == points.end()) {
    return absl::ToDoubleSeconds(points.back().time) * rows / points.back().rows;
  }
  if (above == points.begin()) return absl::ToDoubleSeconds(above->time);
  const Point& below = *(above - 1);
  const double share = static_cast<double>(rows - below.rows) / (above->rows - below.rows);
  return absl::ToDoubleSeconds(below.time + share * (above->time - below.time));
}

absl::Duration CostCurve::Estimate(int rows) const {
  TANDEM_CHECK(rows >= 1) << rows << " rows";
  return absl::Seconds(EstimateSeconds(Points(), rows));
}

int CostCurve::EfficientRows(double loss, absl::Duration overhead) const {
  const std::vector<Point> points = Points();
  if (points.empty()) return max_rows();
  const double besides = absl::ToDoubleSeconds(overhead);
  // Between two points the time per row is a + b / rows: its least is at a point.
  double best = INFINITY;
  for (const Point& point : points) {
    best = std::min(best, (besides + absl::ToDoubleSeconds(point.time)) / point.rows);
  }
  const double max = best * (1 + loss) * (1 + 1e-9);  // of a row
  double rows_below = 0;  // no rows take as long as the fewest that were observed
  double seconds_below = besides + absl::ToDoubleSeconds(points.front().time);
  for (const Point& point : points) {
    const double seconds = besides + absl::ToDoubleSeconds(point.time);
    if (seconds <= max * point.rows) {
      const double slope = (seconds - seconds_below) / (point.rows - rows_below);
      // Here the line crosses `most` a row.
      const double rows = (seconds_below - slope * rows_below) / (max - slope);
      return std::clamp(static_cast<int>(std::ceil(rows - 1e-6)), 1, point.rows);
    }
    rows_below = point.rows;
    seconds_below = seconds;
  }
  return points.back().rows;
}

int CostCurve::RowsWithin(absl::Duration time) const {
  const std::vector<Point> points = Points();
  if (points.empty()) return max_rows();
  // The time of a number of rows never falls: halve the range that holds the answer.
  const double seconds = absl::ToDoubleSeconds(time) * (1 + 1e-9);
  int within = 0;
  int beyond = max_rows() + 1;
  while (beyond - within > 1) {
    const int rows = within + (beyond - within) / 2;
    (EstimateSeconds(points, rows) <= seconds ? within : beyond) = rows;
  }
  return within;
}

bool CostCurve::Differs(const std::vector<Point>& a, const std::vector<Point>& b, double share) {
  if (a.size() != b.size()) return true;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].rows != b[i].rows) return true;
    const auto [less, more] = std::minmax(a[i].time, b[i].time);
    if (more - less > share * more) return true;
  }
  return false;
}

}  // namespace tandem::scheduling
