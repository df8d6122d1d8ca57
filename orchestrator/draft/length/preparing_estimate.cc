#include "orchestrator/draft/length/preparing_estimate.h"

#include <algorithm>

#include "common/theory/prepared.h"

namespace tandem::orchestrator {

double PreparingEstimate::Hits(double alpha, uint32_t draft_tokens, uint32_t outcomes) const {
  const double closed = theory::HitChance(alpha, static_cast<int>(draft_tokens),
                                          static_cast<int>(outcomes), theory::MeasuredRanks());
  return std::min(closed * hits_ / expected_, 1.0);
}

void PreparingEstimate::Observe(const RoundRecord& round, double alpha, double draft_token,
                                double round_trip) {
  const uint32_t tokens = round.prepared_tokens, outcomes = round.prepared_outcomes;
  if (round.prepared == PreparedUse::kNone || tokens == 0 || outcomes == 0) return;
  if (round.prepared != PreparedUse::kLate) {
    hits_ = kKept * hits_ + (WasPrepared(round.prepared) ? 1 : 0);
    expected_ =
        kKept * expected_ + theory::HitChance(alpha, static_cast<int>(tokens),
                                              static_cast<int>(outcomes), theory::MeasuredRanks());
  }
  // What was late tells of draft_token and row together.
  if (outcomes < 2 || draft_token <= 0 || !round.prepared_in.has_value()) return;
  const double took = absl::ToDoubleSeconds(*round.prepared_in) - round_trip;
  const double row = ((took / draft_token - 1) / tokens - 1) / (outcomes - 1);
  row_ += (1 - kKept) * 5 * (std::clamp(row, 0.0, 1.0) - row_);
}

}  // namespace tandem::orchestrator
