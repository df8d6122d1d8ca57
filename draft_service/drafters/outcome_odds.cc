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

OutcomeOdds::OutcomeOdds() : others_{0.9 * kPrior, kPrior} {
  for (size_t i = 0; i < first_.size(); ++i) {
    first_[i] = {kPrior / (1 + std::exp(-kTypicalGap[i])), kPrior};
  }
}

size_t OutcomeOdds::BucketOf(absl::Span<const sampling::RankedToken> ranking) {
  if (ranking.size() < 2) return kGaps.size();  // nothing else can be drawn
  const double gap = ranking[0].score - ranking[1].score;
  return static_cast<size_t>(std::upper_bound(kGaps.begin(), kGaps.end(), gap) - kGaps.begin());
}

std::vector<double> OutcomeOdds::Of(absl::Span<const sampling::RankedToken> ranking) const {
  // What was never seen stays possible.
  const double first = std::clamp(first_[BucketOf(ranking)].value(), 1e-3, 1 - 1e-3);
  std::vector<double> chances = {first};
  double sum = 0;
  for (size_t rank = 1; rank < ranking.size(); ++rank) {
    chances.push_back(std::exp(ranking[rank].score - ranking[1].score));
    sum += chances.back();
  }
  for (size_t rank = 1; rank < ranking.size(); ++rank) {
    chances[rank] *= (1 - first) * others_.value() / sum;
  }
  return chances;
}

void OutcomeOdds::Mean::Add(bool hit) {
  hits += hit ? 1 : 0;
  of += 1;
  if (of < kMemory) return;
  hits /= 2;
  of /= 2;
}

void OutcomeOdds::Observe(absl::Span<const sampling::RankedToken> ranking, uint32_t token) {
  const auto is_token = [token](const sampling::RankedToken& ranked) {
    return ranked.token == token;
  };
  const bool first = is_token(ranking.front());
  first_[BucketOf(ranking)].Add(first);
  if (!first) others_.Add(std::any_of(ranking.begin() + 1, ranking.end(), is_token));
}

}  // namespace tandem::draft_service
