// The time of a pass by its number of rows: measured at powers of two, straight lines between them,
// never falling. While a device waits for its memory a few rows more cost next to nothing. Once it
// computes all the time they cost their full price. This curve tells where that begins.
//
// Thread safety: none; one thread at a time. Copies are plain values.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/time/time.h"

namespace tandem::scheduling {

class CostCurve {
 public:
  struct Point {
    int rows = 0;
    absl::Duration time;
  };

  // Points at 1, 2, 4, … and at `max_rows`; at least 1.
  explicit CostCurve(int max_rows);

  // A pass of `rows` (1 to max_rows) took `time`. The first one near a point sets it. Later ones
  // move the whole curve up or down. They also move the two points beside `rows` a little against
  // the others, the nearer one more. A machine that others keep busy is slower at all sizes, also
  // at those that are not tried meanwhile. If only the sizes in use got dearer, larger passes would
  // seem cheap until they are in use.
  //
  // A disturbance (another process, a page fault, a late wake-up) only ever makes a pass longer. So
  // the curve follows a time that is shorter than expected by a fifth of the difference, and a
  // longer one by a twentieth. A longer time counts as a quarter more than expected at most: one
  // pass that was interrupted for a second moves the curve by 1 %. A device that has got slower for
  // good still moves it all the way, within some hundred passes.
  void Observe(int rows, absl::Duration time);

  // Zero while nothing was observed. Beyond the largest point that was observed the time of a row
  // is that point's; below the smallest, a pass takes that point's time.
  absl::Duration Estimate(int rows) const;

  // The fewest rows whose time per row is within 1 + `loss` of the least time per row of the curve.
  // max_rows while nothing was observed. `overhead`: what each pass costs besides, whatever its
  // number of rows.
  int EfficientRows(double loss, absl::Duration overhead = absl::ZeroDuration()) const;

  // The most rows that take no longer than `time`; 0 where one row does, max_rows while nothing was
  // observed.
  int RowsWithin(absl::Duration time) const;

  bool empty() const {
    return std::all_of(seconds_.begin(), seconds_.end(), [](double s) { return s < 0; });
  }
  int max_rows() const { return rows_.back(); }

  // The points that were observed, by rows, never falling.
  std::vector<Point> Points() const;

  // True if some point differs by more than `share` of the other's, or was observed in only one of
  // them.
  static bool Differs(const std::vector<Point>& a, const std::vector<Point>& b, double share);

 private:
  void Move(size_t point, double weight, double step, double seconds);
  void KeepRising(size_t point);
  static double EstimateSeconds(const std::vector<Point>& points, int rows);

  std::vector<int> rows_;
  std::vector<double> seconds_;  // as many, never falling, times level_; negative: not observed
  double level_ = 1;
};

}  // namespace tandem::scheduling
