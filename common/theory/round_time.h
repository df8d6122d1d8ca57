// What speculation wins with measured times: a draft at the other end of a network, and a target
// pass that takes longer the more rows it has.
//
// Thread safety: plain values and pure functions. Arguments outside their ranges are a CHECK.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::theory {

// Time of a target pass by its rows. Between points it follows straight lines. Below the first
// point it is that point's time. Beyond the last point each row takes the last point's time per
// row.
class PassTime {
 public:
  struct Point {
    uint32_t rows = 0;
    double microseconds = 0;

    bool operator==(const Point&) const = default;
  };

  // INVALID_ARGUMENT unless there is a point, rows are at least 1 and rise, and times are above 0
  // and never fall.
  static absl::StatusOr<PassTime> Create(std::vector<Point> points);

  double operator()(int rows) const;  // in microseconds; rows at least 1
  const std::vector<Point>& points() const { return points_; }

 private:
  explicit PassTime(std::vector<Point> points) : points_(std::move(points)) {}

  std::vector<Point> points_;
};

// A round of a system whose parts are measured, all in microseconds.
struct RoundTimes {
  PassTime verify;
  double draft_us = 0;              // a draft token
  double round_trip_us = 0;         // between orchestrator and draft, a round with a draft
  double target_round_trip_us = 0;  // between orchestrator and target, every round
};

// K draft + round trip + target round trip + verify(K + 1); for K = 0, where nobody asks a draft,
// the last two.
double RoundMicroseconds(const RoundTimes& times, int candidates);

// The speed of rounds with K draft tokens, as a factor on that of the target alone:
//   tokens per round / RoundMicroseconds(K) * RoundMicroseconds(0).
// `tokens_per_round`: measured, or ExpectedTokens(alpha, K).
double RoundSpeedup(const RoundTimes& times, int candidates, double tokens_per_round);

// The K from 0 to `max_draft_tokens` with the largest RoundSpeedup under one alpha; the smallest of
// equals.
int OptimalCandidates(const RoundTimes& times, double alpha, int max_draft_tokens);

// The draft time in microseconds per token below which some number of draft tokens up to
// `max_draft_tokens` is faster than none: the largest of
//   (ExpectedTokens(alpha, K) RoundMicroseconds(0) - RoundMicroseconds(K) of such a draft) / K.
// Absent: none is, however fast the draft. `times.draft_us` is not looked at.
std::optional<double> BreakEvenDraftMicroseconds(const RoundTimes& times, double alpha,
                                                 int max_draft_tokens);

}  // namespace tandem::theory
