#include "orchestrator/draft/choice/drafter_history.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tandem::orchestrator {
namespace {

constexpr double kMaxTexts = 40;    // beyond them old ones fade
constexpr double kMaxRounds = 200;  // likewise
constexpr double kMaxOpenings = 10;
// Before several texts were measured: of the mean.
constexpr double kFirstSpread = 0.4;
constexpr double kFirstSpreadTexts = 2;
constexpr uint32_t kLearnAgain = 16;

// A running mean whose old values fade beyond `max` of them. Returns the new value's weight.
double Average(double value, double max, double& count, double& mean) {
  count = std::min(count + 1, max);
  const double weight = 1 / count;
  mean += weight * (value - mean);
  return weight;
}

}  // namespace

uint32_t DrafterHistory::LevelOf(uint32_t sequences) {
  const int bits = std::bit_width(std::max(sequences, 1u));
  return std::min<uint32_t>(static_cast<uint32_t>(bits) - 1, kLevels - 1);
}

DrafterHistory::Drafter* DrafterHistory::Find(const std::string& drafter) {
  const auto known = drafters_.find(drafter);
  if (known != drafters_.end()) return &known->second;
  if (drafters_.size() >= kMaxNames) return nullptr;
  return &drafters_[drafter];
}

std::optional<DrafterHistory::Expectation> DrafterHistory::Expect(const std::string& drafter,
                                                                  uint32_t sequences) const {
  concurrency::MutexLock lock(mutex_);
  const auto known = drafters_.find(drafter);
  if (known == drafters_.end()) return std::nullopt;
  const int wanted = static_cast<int>(LevelOf(sequences));
  const Level* nearest = nullptr;
  int distance = kLevels;
  for (int i = 0; i < static_cast<int>(kLevels); ++i) {
    const Level& level = known->second.levels[i];
    if (level.texts == 0 || level.rounds == 0 || std::abs(i - wanted) >= distance) continue;
    nearest = &level;
    distance = std::abs(i - wanted);
  }
  if (nearest == nullptr) return std::nullopt;
  Expectation expected;
  expected.tokens = nearest->tokens;
  const double first = kFirstSpread * nearest->tokens;
  const double between = std::max(0.0, nearest->variance - nearest->noise);
  expected.spread = std::sqrt((between * nearest->texts + first * first * kFirstSpreadTexts) /
                              (nearest->texts + kFirstSpreadTexts));
  expected.seconds = nearest->seconds;
  if (known->second.openings > 0) expected.opening = known->second.opening;
  return expected;
}

void DrafterHistory::AddText(const std::string& drafter, uint32_t sequences, double tokens,
                             double noise) {
  concurrency::MutexLock lock(mutex_);
  Drafter* const one = Find(drafter);
  if (one == nullptr) return;
  Level& level = one->levels[LevelOf(sequences)];
  const double before = level.tokens;
  const double weight = Average(tokens, kMaxTexts, level.texts, level.tokens);
  level.variance = (1 - weight) * (level.variance + weight * (tokens - before) * (tokens - before));
  level.noise += weight * (noise - level.noise);
}

void DrafterHistory::AddRound(const std::string& drafter, uint32_t sequences, double seconds) {
  concurrency::MutexLock lock(mutex_);
  Drafter* const one = Find(drafter);
  if (one == nullptr) return;
  Level& level = one->levels[LevelOf(sequences)];
  Average(seconds, kMaxRounds, level.rounds, level.seconds);
}

void DrafterHistory::AddOpening(const std::string& drafter, double seconds) {
  concurrency::MutexLock lock(mutex_);
  Drafter* const one = Find(drafter);
  if (one != nullptr) Average(seconds, kMaxOpenings, one->openings, one->opening);
}

bool DrafterHistory::BeginToLearn(const std::string& drafter) {
  concurrency::MutexLock lock(mutex_);
  Drafter* const one = Find(drafter);
  if (one == nullptr) return false;
  double texts = 0;
  for (const Level& level : one->levels) texts += level.texts;
  return texts < kKnownTexts && one->asked++ % kLearnAgain < kKnownTexts;
}

bool DrafterHistory::BeginToRevisit() {
  concurrency::MutexLock lock(mutex_);
  return ++begun_ % kRevisitEvery == 0;
}

}  // namespace tandem::orchestrator
