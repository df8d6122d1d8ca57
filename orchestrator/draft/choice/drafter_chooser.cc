#include "orchestrator/draft/choice/drafter_chooser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

// Rounds that a trial counts at most. Half of them may end it, for one round says little. What
// other texts got weighs as much as a trial, and a text may lose so much on trials before it earns
// more.
constexpr double kTrialRounds = 8;
// Rounds in other texts, two trials. With fewer, texts begin with the drafter to learn of it, and
// how much texts differ is rather guessed than known.
constexpr double kKnownRounds = 2 * kTrialRounds;
// That guess: of the mean tokens per round, one standard deviation. Copies and prose are as far
// apart.
constexpr double kSpread = 0.4;
// Of the tokens per second, to change the drafter. Less is noise and brings less than the switch
// costs.
constexpr double kGain = 0.08;
// Of the rounds' time, for trials: what a text loses to them where they never show anything.
constexpr double kShare = 0.03;

// The variance of the mean tokens per round from text to text. Where little is known, rather a
// guess.
double VarianceOfTexts(const CommonDrafter& common, double guessed_mean) {
  const DrafterSums& sums = common.sums;
  const double mean = sums.rounds > 0 ? sums.tokens / sums.rounds : guessed_mean;
  const double guess = kKnownRounds * std::pow(kSpread * mean, 2);
  const double texts = common.text_squares - mean * sums.tokens;
  const double within = sums.squares - common.text_squares;
  const double noise = within / (kTrialRounds - 1);  // that equal texts would differ by
  return (std::max(0.0, texts - noise) + guess) / (sums.rounds + kKnownRounds);
}

}  // namespace

DrafterChooser::DrafterChooser(const std::vector<std::string>& names, acceptance::Rule rule,
                               uint32_t nodes, CommonDrafters& common)
    : common_(common), kind_{rule, nodes, /*load=*/-1}, arms_(names.size()), credit_(kTrialRounds) {
  TANDEM_CHECK(!names.empty() && names.size() <= kMaxDrafters);
  for (size_t i = 0; i < names.size(); ++i) arms_[i].name = names[i];
}

DrafterChooser::~DrafterChooser() {
  for (Arm& arm : arms_) Tell(arm);
}

void DrafterChooser::Tell(Arm& arm) {
  if (arm.first.rounds < 2 || std::exchange(arm.told, true)) return;
  common_.AddText(kind_, arm.name, arm.first);
}

std::vector<DrafterChooser::Value> DrafterChooser::Values() const {
  std::vector<DrafterSums> all;
  double known = 0, tokens = 0, seconds = 0;
  for (const Arm& arm : arms_) {
    DrafterSums sums = arm.common.sums;
    if (sums.rounds > kTrialRounds) sums.Scale(kTrialRounds / sums.rounds);
    sums.Add(arm.sums);
    if (sums.rounds > 0) {
      known += 1;
      tokens += sums.tokens / sums.rounds;
      seconds += sums.seconds / sums.rounds;
    }
    all.push_back(sums);
  }
  // One that nothing is known of is as the others on average.
  const DrafterSums other = known > 0 ? DrafterSums{known, tokens, seconds} : DrafterSums{1, 1, 1};
  std::vector<Value> values;
  for (size_t i = 0; i < arms_.size(); ++i) {
    const DrafterSums& sums = all[i].rounds > 0 ? all[i] : other;
    const CommonDrafter& common = arms_[i].common;
    Value value{sums.tokens / sums.rounds, sums.seconds / sums.rounds};
    const double unknown = kTrialRounds / (kTrialRounds + arms_[i].sums.rounds);
    const double spread = std::sqrt(VarianceOfTexts(common, value.tokens) * unknown);
    value.rate = value.tokens / value.seconds;
    value.at_most = (value.tokens + spread) / value.seconds;
    if (common.switches > 0) value.switch_seconds = common.switch_seconds / common.switches;
    values.push_back(value);
  }
  return values;
}

void DrafterChooser::SetLoad(uint32_t sequences) {
  const int load = CommonDrafters::LoadOf(sequences);
  if (std::exchange(kind_.load, load) == load) return;
  for (Arm& arm : arms_) arm.common = common_.Get(kind_, arm.name);
}

void DrafterChooser::Begin() {
  const std::vector<Value> values = Values();
  const auto known = [&](uint32_t i) { return arms_[i].common.sums.rounds; };
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    if (known(i) > 0 && (known(best_) == 0 || values[i].rate > values[best_].rate)) best_ = i;
  }
  used_ = best_;
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    const bool promises = i != best_ && values[i].at_most > (1 + kGain) * values[best_].rate;
    if (known(i) >= kKnownRounds && !promises) continue;
    if (!common_.BeginToLearn(kind_, arms_[i].name)) continue;
    used_ = i;
    break;
  }
  if (known(best_) == 0) best_ = used_;  // nothing is known of any
  trial_ = used_ != best_;
}

void DrafterChooser::Use(uint32_t drafter) {
  if (drafter == used_) return;
  used_ = drafter;
  rounds_ = counted_ = 0;
}

void DrafterChooser::Keep(uint32_t drafter, DrafterReason reason) {
  best_ = drafter;
  reason_ = reason;
  trial_ = false;
  Use(drafter);
}

// What the rest of the text may win by a trial pays for it, and so does the credit. Half of the
// trials that promise something keep it, and half of a trial's rounds are done when it is given up.
bool DrafterChooser::IsTrialDue(uint32_t drafter, const std::vector<Value>& values,
                                uint32_t tokens_left) const {
  if (common_.always()) return true;
  const Value& one = values[drafter];
  const Value& best = values[best_];
  if (arms_[drafter].trials.until > now_ || one.at_most < (1 + kGain) * best.rate) return false;
  const double rest = tokens_left / best.rate;
  const double win = (1 - best.rate / one.at_most) * rest / 2;
  const double lost = kTrialRounds * one.seconds * std::max(0.0, 1 - one.rate / best.rate) / 2;
  const double cost = lost + one.switch_seconds + best.switch_seconds;
  return rest > kTrialRounds * one.seconds && win > cost && cost <= credit_ * best.seconds;
}

void DrafterChooser::Steady(uint32_t tokens_left) {
  const std::vector<Value> values = Values();
  const Value& best = values[best_];
  const bool is_left = !Usable(arms_[best_]);
  std::optional<uint32_t> better, trial;
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    if (i == best_ || !Usable(arms_[i])) continue;
    // Seconds that the rest of the text would take less, if it changes to one that it has tried.
    const double saved = tokens_left * (1 / best.rate - 1 / values[i].rate);
    const bool is_better = arms_[i].sums.rounds > 0 && values[i].rate > (1 + kGain) * best.rate &&
                           saved > values[i].switch_seconds;
    if ((is_left || is_better) && (!better || values[i].rate > values[*better].rate)) better = i;
    if (!IsTrialDue(i, values, tokens_left)) continue;
    if (!trial || values[i].at_most > values[*trial].at_most) trial = i;
  }
  if (better.has_value()) {
    Keep(*better, is_left ? DrafterReason::kOther : DrafterReason::kBest);
  } else if (trial.has_value() && !is_left) {
    trial_ = true;
    Use(*trial);
  }
}

void DrafterChooser::EndTrialIfDue() {
  const std::vector<Value> values = Values();
  Arm& arm = arms_[used_];
  const double most = common_.always() ? 1 : kTrialRounds;
  const bool hopeless = counted_ >= kTrialRounds / 2 && values[used_].at_most < values[best_].rate;
  // Rounds that do not count, as those of the length policy's trials, do not make it endless.
  if (Usable(arm) && !hopeless && counted_ < most && rounds_ < 3 * most) return;
  Tell(arm);
  const bool better =
      Usable(arm) && counted_ > 0 && values[used_].rate > (1 + kGain) * values[best_].rate;
  if (better) {
    arm.trials = {};
  } else {
    arm.trials.Fail(now_);
  }
  Keep(better ? used_ : best_, DrafterReason::kBest);
}

DrafterChoice DrafterChooser::Next(uint32_t sequences, uint32_t tokens_left) {
  SetLoad(sequences);
  if (!std::exchange(begun_, true)) {
    Begin();
  } else if (rounds_ == 0 && Usable(arms_[used_])) {
    // It has not shown anything yet.
  } else if (trial_) {
    EndTrialIfDue();
  } else {
    Steady(tokens_left);
  }
  return {used_, trial_ ? DrafterReason::kTrial : reason_};
}

void DrafterChooser::Observe(const RoundRecord& round) {
  if (!round.drafter.has_value() || !round.choice.has_value()) return;
  TANDEM_CHECK(round.drafter->index == used_);
  Arm& arm = arms_[used_];
  const std::vector<Value> values = Values();
  const Value& best = values[best_];
  // At least 1 µs: a clock may not have moved.
  double seconds = std::max(1e-6, absl::ToDoubleSeconds(round.without_prefill()));
  const double tokens = round.accepted_tokens + 1.0;
  const bool reads = rounds_++ == 0 && round.asked_tokens > 0;
  const bool switched = reads && now_ > 0;
  now_ += 1;
  credit_ += trial_ || switched ? (tokens / best.rate - seconds) / best.seconds : kShare;
  if (round.DraftFailed()) {
    if (round.cause == PlainCause::kDraftRefused) {
      arm.faults.until = std::numeric_limits<double>::infinity();
    } else if (arm.failed) {
      arm.faults.Fail(now_);
    }
    arm.failed = !arm.failed;
    return;
  }
  arm.failed = false;
  if (reads) {
    if (switched) {
      const double more = std::max(0.0, seconds - values[used_].seconds);
      arm.common.AddSwitch(more);
      common_.AddSwitch(kind_, arm.name, more);
    }
    return;
  }
  if (round.choice->trial || round.asked_tokens != round.choice->tokens) return;
  // A machine that stalls for a moment says nothing of this drafter.
  if (arm.sums.rounds > 1) seconds = std::min(seconds, kTrialRounds / 2 * values[used_].seconds);
  for (Arm& one : arms_) one.sums.Scale(CommonDrafter::kFade);
  const DrafterSums more{1, tokens, seconds, tokens * tokens};
  arm.sums.Add(more);
  ++counted_;
  if (arm.told) return;
  arm.first.Add(more);
  if (arm.first.rounds < kTrialRounds) return;
  Tell(arm);
  if (!trial_ && reason_ == DrafterReason::kFirst) reason_ = DrafterReason::kBest;
}

}  // namespace tandem::orchestrator
