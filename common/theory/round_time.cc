#include "common/theory/round_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/theory/speedup.h"

namespace tandem::theory {

absl::StatusOr<PassTime> PassTime::Create(std::vector<Point> points) {
  if (points.empty()) return absl::InvalidArgumentError("must have at least one point");
  for (size_t i = 0; i < points.size(); ++i) {
    const auto [rows, microseconds] = points[i];
    if (rows < 1) return absl::InvalidArgumentError("rows must be at least 1");
    if (!(microseconds > 0) || !std::isfinite(microseconds)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the time of ", rows, " rows must be above 0"));
    }
    if (i == 0) continue;
    if (rows <= points[i - 1].rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("rows must rise; ", rows, " follows ", points[i - 1].rows));
    }
    if (microseconds < points[i - 1].microseconds) {
      return absl::InvalidArgumentError(
          absl::StrCat("times must not fall; ", rows, " rows take less than ", points[i - 1].rows));
    }
  }
  return PassTime(std::move(points));
}

double PassTime::operator()(int rows) const {
  TANDEM_CHECK(rows >= 1) << rows << " rows";
  if (rows <= static_cast<int64_t>(points_.front().rows)) return points_.front().microseconds;
  for (size_t i = 1; i < points_.size(); ++i) {
    const Point& above = points_[i];
    if (rows > static_cast<int64_t>(above.rows)) continue;
    const Point& below = points_[i - 1];
    const double share = (rows - static_cast<double>(below.rows)) / (above.rows - below.rows);
    return below.microseconds + share * (above.microseconds - below.microseconds);
  }
  return points_.back().microseconds * rows / points_.back().rows;
}

double RoundMicroseconds(const RoundTimes& times, int candidates) {
  TANDEM_CHECK(candidates >= 0 && times.draft_us >= 0 && times.round_trip_us >= 0);
  const double verify = times.target_round_trip_us + times.verify(candidates + 1);
  return candidates == 0 ? verify : candidates * times.draft_us + times.round_trip_us + verify;
}

double RoundSpeedup(const RoundTimes& times, int candidates, double tokens_per_round) {
  return tokens_per_round * RoundMicroseconds(times, 0) / RoundMicroseconds(times, candidates);
}

std::optional<double> BreakEvenDraftMicroseconds(const RoundTimes& times, double alpha,
                                                 int max_draft_tokens) {
  RoundTimes without_draft = times;
  without_draft.draft_us = 0;
  double best = 0;
  for (int k = 1; k <= max_draft_tokens; ++k) {
    const double saved = ExpectedTokens(alpha, k) * RoundMicroseconds(times, 0);
    best = std::max(best, (saved - RoundMicroseconds(without_draft, k)) / k);
  }
  return best > 0 ? std::optional(best) : std::nullopt;
}

int OptimalCandidates(const RoundTimes& times, double alpha, int max_draft_tokens) {
  int best = 0;
  double max = 1;
  for (int candidates = 1; candidates <= max_draft_tokens; ++candidates) {
    const double speedup = RoundSpeedup(times, candidates, ExpectedTokens(alpha, candidates));
    if (speedup <= max) continue;
    max = speedup;
    best = candidates;
  }
  return best;
}

}  // namespace tandem::theory
