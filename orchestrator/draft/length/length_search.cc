#include "orchestrator/draft/length/length_search.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace tandem::orchestrator {
namespace {

constexpr double kOutlier = 5;         // a round counts at most so many mean ones
constexpr double kNewTrialWeight = 0.35;
constexpr double kFirstBonus = 0.15;   // how much better an untried length may be than the model says
constexpr double kWait = 8;            // phases from a trial of a length to its next
constexpr double kMaxCredit = 24;
constexpr uint32_t kMaxFails = 6;      // the wait doubles so often

}  // namespace

bool LengthSearch::Observe(double seconds, uint32_t sequences) {
  if (count_ > 4) seconds = std::min(seconds, kOutlier * sum_ / count_);
  sum_ += seconds;
  ++count_;
  return count_ >= std::max(kMinRounds, kRoundsASequence * sequences);
}

void LengthSearch::Begin(Phase phase) {
  phase_ = phase;
  ++phase_number_;
  sum_ = 0;
  count_ = 0;
}

void LengthSearch::Advance(const ByLength& tokens, const ByLength& times) {
  const double mean = sum_ / std::max(count_, 1u);
  switch (phase_) {
    case Phase::kSteady: {
      before_ = mean;
      steady_ = steady_ == 0 ? mean : 0.7 * steady_ + 0.3 * mean;
      credit_ = std::min(credit_ + kTrialShare, kMaxCredit);
      for (Tried& one : tried_) one.since += 1;
      if (tried_[best_].trials == 0) tried_[best_].trials = 1;
      const uint32_t before = best_;
      Judge(tokens, times);
      if (best_ != before) return;
      trial_ = NextTrial(tokens, times);
      if (trial_ != best_) {
        const ByLength values = Values(tokens, times);
        const ByLength all = Times(times);
        const double loss = std::max(0.02, 1 - std::exp(values[trial_] - values[best_]));
        const double cost = 1.5 * all[trial_] / all[best_] * loss;
        if (credit_ >= std::min(cost, kMaxCredit)) return Begin(Phase::kTrial);
      }
      // The phase goes on under its number: nothing changes for the sequences.
      sum_ = 0;
      count_ = 0;
      return;
    }
    case Phase::kTrial:
      trial_time_ = mean;
      return Begin(Phase::kAfter);
    case Phase::kAfter: {
      const double base = 0.5 * (before_ + mean);
      Tried& one = tried_[trial_];
      const double measured = tried_[best_].time + std::log(trial_time_ / base);
      const double weight =
          one.trials == 0 ? 1 : std::max(kNewTrialWeight, 1.0 / (one.trials + 1));
      one.time += weight * (measured - one.time);
      one.trials += 1;
      one.since = 0;
      const double gain = std::log(tokens[trial_] / tokens[best_]) - std::log(trial_time_ / base);
      const double lost = (1 - std::exp(gain)) * trial_time_ / base * 1.5;
      if (lost > 0) credit_ -= lost;
      const uint32_t before = best_;
      Judge(tokens, times);
      one.fails = best_ == before ? std::min(one.fails + 1, kMaxFails) : 0;
      if (best_ != before) tried_[before].since = 0;
      before_ = mean;
      return Begin(Phase::kSteady);
    }
  }
}

ByLength LengthSearch::Times(const ByLength& times) const {
  ByLength all;
  for (uint32_t k = 0; k < kLengths; ++k) {
    if (tried_[k].trials > 0) {
      all[k] = std::exp(tried_[k].time);
      continue;
    }
    // The model's ratio to the nearest tried lengths, below and above.
    double sum = 0;
    double weights = 0;
    for (int step : {-1, 1}) {
      for (int i = static_cast<int>(k) + step; i >= 0 && i < static_cast<int>(kLengths); i += step) {
        if (tried_[i].trials == 0) continue;
        const double weight = 1.0 / std::abs(i - static_cast<int>(k));
        sum += weight * (tried_[i].time + std::log(times[k] / times[i]));
        weights += weight;
        break;
      }
    }
    all[k] = weights > 0 ? std::exp(sum / weights) : times[k];
  }
  return all;
}

ByLength LengthSearch::Values(const ByLength& tokens, const ByLength& times) const {
  const ByLength all = Times(times);
  ByLength values;
  for (uint32_t k = 0; k < kLengths; ++k) values[k] = std::log(tokens[k] / all[k]);
  return values;
}

void LengthSearch::Judge(const ByLength& tokens, const ByLength& times) {
  const ByLength values = Values(tokens, times);
  uint32_t better = best_;
  for (uint32_t k = 0; k < kLengths; ++k) {
    if (tried_[k].trials > 0 && values[k] > values[better]) better = k;
  }
  if (better == best_) return;
  const double gain = tried_[better].trials > 1 ? kGain : kGainOfOne;
  if (values[better] < values[best_] + gain) return;
  best_ = better;
  Begin(Phase::kSteady);
}

double LengthSearch::Wait(uint32_t length) const {
  const Tried& one = tried_[length];
  return one.trials == 0 ? 0 : kWait * std::exp2(one.fails);
}

uint32_t LengthSearch::NextTrial(const ByLength& tokens, const ByLength& times) const {
  const ByLength values = Values(tokens, times);
  uint32_t likely = best_ == 0 ? 1 : 0;
  for (uint32_t k = 1; k < kLengths; ++k) {
    if (k != best_ && values[k] > values[likely]) likely = k;
  }
  uint32_t next = best_;
  double highest = -1e9;
  const uint32_t b = best_;
  for (uint32_t k : {0u, likely, b + 1, b > 0 ? b - 1 : 0, 2 * b, b / 2, b + b / 4, b - b / 4}) {
    if (k >= kLengths || k == best_ || tried_[k].since < Wait(k)) continue;
    const double bonus = kFirstBonus / (1 + tried_[k].trials);
    const bool always = k == 0 || (best_ == 0 && k == likely);
    if (!always && values[k] + bonus < values[best_]) continue;
    if (values[k] + bonus > highest) {
      highest = values[k] + bonus;
      next = k;
    }
  }
  return next;
}

void LengthSearch::Renew() {
  for (Tried& one : tried_) one.fails = 0;
  credit_ = std::max(credit_, kFirstCredit / 2);
}

}  // namespace tandem::orchestrator
