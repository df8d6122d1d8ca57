#include "common/theory/prepared.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include "common/base/check.h"
#include "common/theory/speedup.h"

namespace tandem::theory {

double HitChance(double alpha, int draft_tokens, int outcomes, absl::Span<const double> ranks) {
  TANDEM_CHECK(alpha >= 0 && alpha <= 1) << "alpha " << alpha;
  TANDEM_CHECK(draft_tokens >= 1 && outcomes >= 0) << draft_tokens << ", " << outcomes;
  std::vector<double> chances;
  chances.reserve((draft_tokens + 1) * ranks.size() + 1);
  double reached = 1;
  for (int accepted = 0; accepted <= draft_tokens; ++accepted) {
    for (const double rank : ranks) chances.push_back(reached * (1 - alpha) * rank);
    reached *= alpha;
  }
  chances.push_back(reached);  // the draft's first token after the whole block
  const auto end = chances.begin() + std::min<ptrdiff_t>(chances.size(), outcomes);
  if (end != chances.end()) std::nth_element(chances.begin(), end, chances.end(), std::greater<>());
  return std::min(std::accumulate(chances.begin(), end, 0.0), 1.0);
}

absl::Span<const double> MeasuredRanks() {
  static constexpr double kRanks[] = {0.47,  0.181, 0.091, 0.059, 0.034, 0.03,  0.018, 0.015,
                                      0.009, 0.008, 0.008, 0.007, 0.006, 0.005, 0.005, 0.005};
  return kRanks;
}

double SparedByChaining(double target_round_trip, double prepared, double hits, double verify) {
  TANDEM_CHECK(target_round_trip >= 0 && target_round_trip <= verify && prepared <= verify)
      << target_round_trip << ", " << prepared << ", " << verify;
  const double pass = verify - target_round_trip;
  const double odd = std::max(pass, prepared);
  const double even = pass + std::max(0.0, target_round_trip + prepared - odd);
  return verify - (odd + hits * even) / (1 + hits);
}

double WaitForBlock(const Preparing& draft, double draft_tokens, int outcomes, double hits,
                    double verify) {
  TANDEM_CHECK(draft_tokens > 0 && outcomes >= 0) << draft_tokens << ", " << outcomes;
  TANDEM_CHECK(hits >= 0 && hits <= 1) << "hits " << hits;
  const double asked = draft.round_trip + draft_tokens * draft.draft_token;
  if (outcomes == 0) return asked;
  const double pass = draft.draft_token * (1 + draft.row * (outcomes - 1));
  const double prepared = draft.round_trip + draft.draft_token + draft_tokens * pass;
  if (prepared <= verify) {
    const double spared = draft.target_round_trip > 0
                              ? SparedByChaining(draft.target_round_trip, prepared, hits, verify)
                              : 0;
    return (1 - hits) * asked - hits * spared;
  }
  const double miss = asked + pass / 2;
  const double late = std::min(std::max(draft.round_trip, prepared - verify), miss);
  return hits * late + (1 - hits) * miss;
}

PreparedRounds OptimalPrepared(const RoundTimes& times, double row, bool chained, double alpha,
                               int max_draft_tokens, int max_outcomes) {
  PreparedRounds best;
  const Preparing draft{times.round_trip_us, times.draft_us, row,
                        chained ? times.target_round_trip_us : 0};
  const double plain = times.target_round_trip_us + times.verify(1);
  for (int tokens = 1; tokens <= max_draft_tokens; ++tokens) {
    const double verify = times.target_round_trip_us + times.verify(tokens + 1);
    for (int outcomes = 1; outcomes <= max_outcomes; ++outcomes) {
      const double hits = HitChance(alpha, tokens, outcomes, MeasuredRanks());
      const double wait = WaitForBlock(draft, tokens, outcomes, hits, verify);
      const double speed = ExpectedTokens(alpha, tokens) * plain / (verify + wait);
      if (speed > best.speed * (1 + 1e-9)) best = {tokens, outcomes, speed};
    }
  }
  return best;
}

}  // namespace tandem::theory
