// What blocks prepared in advance bring, by measured rounds: how many verdicts find their block,
// and what a further row costs the draft. The form is that of common/theory/prepared.h; two of its
// numbers are learned.
//
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "common/theory/prepared.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

class PreparingEstimate {
 public:
  // Outcomes that a draft is asked to prepare for.
  static constexpr std::array<uint32_t, 5> kOutcomes = {1, 2, 4, 8, 16};

  // A round was decided whose block may have been prepared. `draft_token`, `round_trip`: of the
  // draft, in seconds. `alpha`: as it is estimated.
  void Observe(const RoundRecord& round, double alpha, double draft_token, double round_trip);

  // The chance that a verdict finds its block, for blocks of `draft_tokens` (at least 1).
  double Hits(double alpha, int draft_tokens, int outcomes) const;
  double row() const { return row_; }  // theory::Preparing::row

 private:
  static constexpr double kPriorHits = 20;  // verdicts that the closed form counts as
  static constexpr double kKept = 0.99;     // of what was seen, per round

  double hits_ = kPriorHits, expected_ = kPriorHits;
  double row_ = theory::kUsualRow;
};

}  // namespace tandem::orchestrator
