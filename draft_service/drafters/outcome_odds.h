// How likely it is that the target draws what a draft model ranks first, second, … at a position: what
// decides for which outcomes blocks are prepared. It is learned while the model drafts, from the tokens that
// were committed.
//
// The target's scores are the draft's and an error of unknown size. So the chance of the first is a running
// mean by the gap between the two best scores, in a few buckets; until something is known it is the logistic
// function of the gap, which is the chance if the error is as large as the noise of a race. The chances of the
// others are running means by rank.
//
// It decides which blocks are made, never what is in them.
//
// Bounded: a fixed number of means, of the last observations (kMemory of each). Thread safety: the drafting
// thread alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"

namespace tandem::draft_service {

// Tokens of a position that are ranked where blocks may be prepared.
inline constexpr size_t kOutcomeRanks = 8;

class OutcomeOdds {
 public:
  OutcomeOdds();

  // That the target draws the first of `ranking` (not empty; at most kOutcomeRanks, the best first). Above 0
  // and below 1.
  double First(absl::Span<const sampling::RankedToken> ranking) const;
  // That it draws the one at index `rank` (1 to kOutcomeRanks - 1), if not the first. Their sum is below 1.
  double Other(size_t rank) const;
  // It drew `token`.
  void Observe(absl::Span<const sampling::RankedToken> ranking, uint32_t token);

 private:
  static constexpr double kMemory = 1024;

  struct Mean {
    double hits = 0;
    double of = 0;
  };
  static size_t BucketOf(absl::Span<const sampling::RankedToken> ranking);
  static void Add(Mean& mean, bool hit);

  std::array<Mean, 8> first_;               // by the gap
  std::array<Mean, kOutcomeRanks> others_;  // by rank, of those that are not the first
};

}  // namespace tandem::draft_service
