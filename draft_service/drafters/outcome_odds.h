// How likely it is that the target draws what a draft model ranks first, second, … at a position:
// what decides for which outcomes blocks are prepared. It is learned while the model drafts, from
// the tokens that were committed.
//
// The target's scores are the draft's and an error of unknown size. So the chance of the first is a
// running mean by the gap between the two best scores, in a few buckets; until something is known
// it is the logistic function of the gap, which is the chance if the error is as large as the noise
// of a race. Of what is left the others have a share, a running mean, too, which is theirs in
// proportion to the exponential functions of their scores.
//
// It decides which blocks are made, never what is in them.
//
// Bounded: nine means, each of its last observations (kMemory). Thread safety: the drafting thread
// alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"

namespace tandem::draft_service {

// Tokens of a position that are ranked where blocks may be prepared.
inline constexpr size_t kOutcomeRanks = 16;

class OutcomeOdds {
 public:
  OutcomeOdds();

  // That the target draws each token of `ranking` (not empty, the best first). Above 0; their sum
  // is below 1.
  std::vector<double> Of(absl::Span<const sampling::RankedToken> ranking) const;
  // It drew `token`.
  void Observe(absl::Span<const sampling::RankedToken> ranking, uint32_t token);

 private:
  static constexpr double kMemory = 1024;

  struct Mean {
    double hits = 0;
    double of = 0;

    double value() const { return hits / of; }
    void Add(bool hit);
  };
  static size_t BucketOf(absl::Span<const sampling::RankedToken> ranking);

  std::array<Mean, 8> first_;  // by the gap
  Mean others_;                // that it is one of the others, if not the first
};

}  // namespace tandem::draft_service
