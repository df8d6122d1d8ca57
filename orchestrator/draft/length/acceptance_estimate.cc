#include "orchestrator/draft/length/acceptance_estimate.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"

namespace tandem::orchestrator {

void AcceptanceEstimate::Observe(uint32_t asked, uint32_t came, uint32_t accepted,
                                 BlockReplay::Text& text) {
  TANDEM_CHECK(asked >= 1 && asked <= kMaxDraftTokens);
  Replay(asked, accepted, /*is_fixed=*/true, text);
  for (uint32_t i = 0; i < asked; ++i) {
    if (asked_[i] >= kMemory) {
      asked_[i] *= 0.5;
      came_[i] *= 0.5;
    }
    asked_[i] += 1;
    if (i < came) came_[i] += 1;
  }
  for (uint32_t i = 0; i < std::min(asked, accepted + 1); ++i) {
    if (tested_[i] >= kMemory) {
      tested_[i] *= 0.5;
      accepted_[i] *= 0.5;
    }
    tested_[i] += 1;
    if (i < accepted) accepted_[i] += 1;
  }
}

void AcceptanceEstimate::ObserveConfident(uint32_t came, uint32_t accepted,
                                          BlockReplay::Text& text) {
  // One that was late counts as one candidate that was rejected.
  Replay(std::max(came, 1u), accepted, /*is_fixed=*/false, text);
}

void AcceptanceEstimate::Replay(uint32_t asked, uint32_t accepted, bool is_fixed,
                                BlockReplay::Text& text) {
  derived_.reset();
  replay_.Observe(asked, accepted, is_fixed, At(std::min(asked + 1, kMaxDraftTokens)), text);
}

void AcceptanceEstimate::Fade(double tests) {
  const auto fade = [tests](double& weight, double& counted) {
    if (weight <= tests) return;
    counted *= tests / weight;
    weight = tests;
  };
  for (uint32_t i = 0; i < kMaxDraftTokens; ++i) {
    fade(tested_[i], accepted_[i]);
    fade(asked_[i], came_[i]);
  }
  replay_.Fade(tests * TokensOfARound(kMaxDraftTokens).first);  // so many of the longest blocks
  derived_.reset();
}

double AcceptanceEstimate::At(uint32_t position) const {
  TANDEM_CHECK(position >= 1 && position <= kMaxDraftTokens);
  double chance = kPrior;
  for (uint32_t i = 0; i < position; ++i) {
    chance = (accepted_[i] + kPriorWeight * chance) / (tested_[i] + kPriorWeight);
  }
  return chance;
}

AcceptanceEstimate::Moments AcceptanceEstimate::TokensOfARound(uint32_t asked) const {
  Moments moments;
  double all = 1;
  double chance = kPrior;
  for (uint32_t i = 0; i < asked; ++i) {
    chance = (accepted_[i] + kPriorWeight * chance) / (tested_[i] + kPriorWeight);
    all *= replay_.At(i + 1, asked, chance);
    moments.first += all;
    moments.second += (2 * i + 3) * all;
  }
  return moments;
}

const AcceptanceEstimate::Derived& AcceptanceEstimate::derived() const {
  if (derived_.has_value()) return *derived_;
  Derived all{};
  for (uint32_t asked = 0; asked <= kMaxDraftTokens; ++asked) {
    all.tokens[asked] = TokensOfARound(asked);
  }
  all.drafted[0] = 0;
  double share = 1;  // of a position that was never asked for: as of the one before
  for (uint32_t i = 0; i < kMaxDraftTokens; ++i) {
    if (asked_[i] > 0) share = came_[i] / asked_[i];
    all.drafted[i + 1] = all.drafted[i] + share;
  }
  return derived_.emplace(all);
}

double AcceptanceEstimate::Tokens(uint32_t asked) const {
  return derived().tokens[std::min(asked, kMaxDraftTokens)].first;
}

double AcceptanceEstimate::TokensInTexts(uint32_t asked, double text_tokens) const {
  const Moments moments = derived().tokens[std::min(asked, kMaxDraftTokens)];
  const double beyond = (moments.second / moments.first - 1) / 2;
  return moments.first / (1 + beyond / text_tokens);
}

double AcceptanceEstimate::Drafted(uint32_t asked) const {
  return derived().drafted[std::min(asked, kMaxDraftTokens)];
}

double AcceptanceEstimate::alpha() const {
  const double tested = std::accumulate(tested_.begin(), tested_.end(), 0.0);
  if (tested == 0) return kPrior;
  return std::accumulate(accepted_.begin(), accepted_.end(), 0.0) / tested;
}

}  // namespace tandem::orchestrator
