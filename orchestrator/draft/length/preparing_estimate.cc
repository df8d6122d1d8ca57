#include "orchestrator/draft/length/preparing_estimate.h"

#include <algorithm>

namespace tandem::orchestrator {

double PreparingEstimate::Hits(double alpha, int draft_tokens, int outcomes) const {
  const double closed = theory::HitChance(alpha, draft_tokens, outcomes, theory::MeasuredRanks());
  return std::min(closed * hits_ / expected_, 1.0);
}

void PreparingEstimate::Observe(const RoundRecord& round, double alpha, double draft_token,
                                double round_trip) {
  const int tokens = static_cast<int>(round.prepared_tokens);
  const int outcomes = static_cast<int>(round.prepared_outcomes);
  if (round.prepared == PreparedUse::kNone || tokens * outcomes == 0 || draft_token <= 0) return;
  const double row_token = draft_token * tokens * (outcomes - 1);
  double row = theory::kUsualRow;  // where no row is measured, what was is forgotten
  if (round.prepared == PreparedUse::kLate) {
    // Whether the draft was waited for as long as row_ says, on average over hits and misses.
    const double waits = theory::WaitForBlock({round_trip, draft_token, row_}, tokens, outcomes,
                                              Hits(alpha, tokens, outcomes),
                                              absl::ToDoubleSeconds(round.verified_in));
    const double waited = round_trip + absl::ToDoubleSeconds(round.stages.draft);
    if (outcomes > 1) row = row_ + (waited - waits) / row_token;
  } else {
    hits_ = kKept * hits_ + (WasPrepared(round.prepared) ? 1 : 0);
    expected_ =
        kKept * expected_ + theory::HitChance(alpha, tokens, outcomes, theory::MeasuredRanks());
    const double took = absl::ToDoubleSeconds(*round.prepared_in) - round_trip;
    if (outcomes > 1) row = std::max(0.0, took - draft_token * (1 + tokens)) / row_token;
  }
  row_ = std::max(0.0, kKept * row_ + (1 - kKept) * std::clamp(row, -1.0, 1.0));
}

}  // namespace tandem::orchestrator
