#include "draft_service/drafters/outcome_odds.h"

#include <algorithm>
#include <cmath>

namespace tandem::draft_service {
namespace {

// Upper ends of the buckets but the last, in nats.
constexpr std::array<double, 7> kGaps = {0.25, 0.5, 1, 1.5, 2.5, 4, 6};
// Of each bucket, for what it is worth before anything is known.
constexpr std::array<double, 8> kTypicalGap = {0.125, 0.375, 0.75, 1.25, 2, 3.25, 5, 7};
constexpr double kPrior = 4;  // observations that it counts as

}  // namespace

OutcomeOdds::OutcomeOdds() {
  for (size_t i = 0; i < first_.size(); ++i) {
    first_[i] = {kPrior / (1 + std::exp(-kTypicalGap[i])), kPrior};
  }
  for (size_t rank = 1; rank < others_.size(); ++rank) {
    others_[rank] = {kPrior * std::exp2(-static_cast<double>(rank)), kPrior};
  }
}

size_t OutcomeOdds::BucketOf(absl::Span<const sampling::RankedToken> ranking) {
  if (ranking.size() < 2) return kGaps.size();  // nothing else can be drawn
  const double gap = ranking[0].score - ranking[1].score;
  return static_cast<size_t>(std::upper_bound(kGaps.begin(), kGaps.end(), gap) - kGaps.begin());
}

double OutcomeOdds::First(absl::Span<const sampling::RankedToken> ranking) const {
  const Mean& mean = first_[BucketOf(ranking)];
  // Rare outcomes of sure tokens stay possible, however long none was seen.
  return std::clamp(mean.hits / mean.of, 1e-3, 1 - 1e-3);
}

double OutcomeOdds::Other(size_t rank) const { return others_[rank].hits / others_[rank].of; }

void OutcomeOdds::Add(Mean& mean, bool hit) {
  mean.hits += hit ? 1 : 0;
  mean.of += 1;
  if (mean.of < kMemory) return;
  mean.hits /= 2;
  mean.of /= 2;
}

void OutcomeOdds::Observe(absl::Span<const sampling::RankedToken> ranking, uint32_t token) {
  const bool first = ranking.front().token == token;
  Add(first_[BucketOf(ranking)], first);
  if (first) return;
  for (size_t rank = 1; rank < others_.size(); ++rank) {
    Add(others_[rank], rank < ranking.size() && ranking[rank].token == token);
  }
}

}  // namespace tandem::draft_service
