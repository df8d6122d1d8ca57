#include "orchestrator/draft/length/length_search.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace tandem::orchestrator {
namespace {

constexpr double kMaxTrialWeight = 0.5;  // of a new trial beside those before
constexpr double kPlain = 0.01;          // so much must a draft win to replace none
constexpr double kWait = 8;              // phases from a trial of a length to its next
// The wait beside plain decoding grows by so much with each phase that a trial took.
constexpr double kWaitOfPlain = 0.5;
constexpr double kMaxError = 0.05;  // of a trial, by how its own rounds differ
constexpr double kMaxStep = 0.7;    // from one steady phase to the next that counts, logarithm
constexpr double kMinNoiseWeight = 0.05;
// By so many errors must another length be better to replace the best one. Plain decoding is what a user would
// have without us: it is left on evidence, and taken up again on half of it.
constexpr double kErrors = 1, kErrorsFromPlain = 1.25, kErrorsToPlain = 0.5;
// Plain decoding is clearly the best where all others are worse by this, and by so many errors more.
constexpr double kClear = 0.05, kClearErrors = 2;
constexpr double kSurprise = 0.3;  // of a trial against the last of its length
// The first phase that is no faster than this times the one before it is the first one that counts.
constexpr double kWarm = 0.9;
constexpr uint32_t kMaxColdPhases = 8;
constexpr uint32_t kConfirms = 4;  // steady phases after a change that are compared with before
constexpr double kConfirmWeight = 0.5;
// A trial whose rounds differ by more than this goes on, and its first half fades: its sequences may
// not have come into step yet.
constexpr double kPrecise = 0.02;
constexpr uint32_t kMaxExtensions = 4;
constexpr double kJump = 0.7;  // of the best length's rounds, logarithm
constexpr uint32_t kJumpPhases =
    8;  // that it must last: what stands still for a moment has not changed
constexpr uint32_t kJumpWait = 256;  // phases from one that counts to the next
constexpr double kAfterWeight = 0.4;
constexpr double kMinSteadyWeight = 0.2;  // of a steady phase in the mean before a trial
constexpr double kHopeless = -0.08;       // a trial with so little gain ends early
// Rounds that differ by more than this may be those of sequences that come into step with each other: they are
// measured anew, up to so often, before a trial is given up.
constexpr double kUneven = 0.06;
constexpr uint32_t kMaxRestarts = 6;
constexpr double kRestartCost = 3;  // phases: a trial that has cost more is not measured anew
// Sequences that leave plain decoding come into step with the draft and the target in some rounds. A trial that looks
// worse is measured anew so often first.
constexpr uint32_t kRestartsBesidePlain = 3;
// Where it looks better, but by less than plain decoding is left for, and the machine is even, it goes on for so many
// phases at most.
constexpr double kEven = 0.02;  // standard deviation of a steady phase's time, of its logarithm
constexpr uint32_t kMaxTiePhases = 16;
constexpr double kDreadful = -0.9;  // one whose very first rounds have so little ends with them
// The two shortest lengths are tried first, however bad the model believes them to be up to this: a
// pass may wait for those that come back at once, and for nobody else.
constexpr double kUnknown = 0.5;
// The same beside plain decoding, where there are several sequences, of lengths up to kShort: neighbours say little of
// each other there.
constexpr double kUnknownShort = 0.2;
constexpr uint32_t kShort = 4;
// Where the trial's length seems better, but by less than the error, the next trial waits no longer than this one did:
// up to so often in a row, and until the error is so small that it is a tie.
constexpr double kExact = 0.03;
constexpr uint32_t kMaxOpen = 8;
constexpr double kChangeError = 0.5;  // of what the best length's rounds changed by during a trial
// Of a trial in turn, in pairs of rounds: they are compared after so many more; the fewest, but where it is clearly worse,
// and the most. It ends between them once it has an error of no more than this.
constexpr uint32_t kPairsStep = 8, kMinPairs = 24, kMaxPairs = 256;
constexpr double kPairsError = 0.015;
constexpr double kShareOfTokens = 0.3;    // or than this share of what the tokens are not known by
constexpr double kMinPairsError = 0.005;  // there may be more that pairs do not show
// Trials of several sequences are repeated at once where steady phases differ by kRepeatNoise or more, until the error is
// kRepeatError, or the cost so many phases.
constexpr uint32_t kMaxRepeatSequences = 8, kMaxRepeats = 16;
constexpr double kRepeatNoise = 0.05, kRepeatError = 0.02, kRepeatCost = 2;
constexpr uint32_t kMaxFails = 6;      // the wait doubles so often
constexpr uint32_t kMaxUndecided = 4;  // and so often where a trial is not clearly worse

}  // namespace

uint32_t LengthSearch::PhaseRounds(uint32_t sequences) {
  return std::max(kMinRounds, kRoundsASequence * sequences);
}

bool LengthSearch::ObserveInTurn(const Round& observed, bool counts) {
  if (!counts) return false;
  const PairedRounds::Round round{observed.seconds, observed.candidates};
  const uint32_t turn = turn_;
  turn_ = (turn_ + 1) % (2 * kRoundsInTurn);
  // The first round of each length pays for the other length's round before it.
  if (turn == kRoundsInTurn - 1) first_ = round;
  if (turn_ != 0) return false;
  pairs_.Add(first_, round);
  if (pairs_.count() % kPairsStep != 0) return false;
  const auto [ratio, error] = pairs_.Compare();
  const double gain = more_tokens_ - ratio;
  const double of_tokens = TokensError(trial_);
  const double all = std::hypot(error, of_tokens);
  if (gain < -3 * all) return true;
  if (pairs_.count() < kMinPairs) return false;
  if (gain < -2 * all) return true;
  return gain > 3 * error || error < std::max(kPairsError, kShareOfTokens * of_tokens) ||
         pairs_.count() >= kMaxPairs;
}

bool LengthSearch::Observe(const Round& round, bool counts, uint32_t sequences) {
  if (phase_ == Phase::kTrial && in_turn_) return ObserveInTurn(round, counts);
  const double seconds = times_.Clip(round.seconds);
  times_.Add(seconds);
  if (phase_ == Phase::kTrial || !counts) {
    CountCost({seconds, round.tokens, round.candidates}, length());
  }
  if (phase_ == Phase::kTrial && trial_ > 0 &&
      times_.all_count() >= std::max(kMinRounds / 4, sequences) &&
      more_tokens_ - std::log(times_.mean_of_all() / before_) < kDreadful) {
    // All its rounds decide. Few count so early, and those are of sequences that got ahead of the others.
    times_.Restart();
    return true;
  }
  if (!counts) return false;
  times_.Count(seconds);
  const uint32_t phase = PhaseRounds(sequences);
  if (phase_ != Phase::kTrial) return times_.count() >= phase;
  if (promising_) {
    if (times_.count() < phase + phase / 2) return false;
    if (times_.Error(sequences) <= kPrecise || extensions_ == kMaxExtensions) {
      return !IsTie(sequences);
    }
    ++extensions_;
    times_.Fade();
    return false;
  }
  // The worse it looks, the fewer rounds it takes to be sure.
  const double gain = Gain();
  const uint32_t enough = std::max(kMinRounds / 2, sequences);
  for (uint32_t share : {1, 2, 4}) {
    const uint32_t rounds = std::max(kMinRounds / 2 / share, sequences);
    // Without drafts many sequences come into one pass step by step: only what is far worse ends early.
    if (trial_ == 0 && share == 1 && sequences > 1) continue;
    if (gain >= share * share * kHopeless || times_.count() < rounds) continue;
    if (MayBeGivenUp(gain, sequences)) return true;
    ++restarts_;
    times_.Restart();
    return false;
  }
  if (times_.count() < enough) return false;
  promising_ = true;
  times_.Restart();
  return false;
}

// A trial costs what its rounds take more than rounds of the best length with as many tokens; so does what
// shares passes with them.
void LengthSearch::CountCost(const Round& round, uint32_t length) {
  if (phase_ == Phase::kSteady || in_turn_) return;
  if (length != best_ && length != trial_) return;
  const double expected = length == best_ ? 1 : std::exp(more_tokens_);
  trial_cost_ += round.seconds - expected * before_;
  trial_lack_ += (expected - round.tokens / best_tokens_) * before_;
}

double LengthSearch::Gain() const { return more_tokens_ - std::log(times_.mean() / before_); }

bool LengthSearch::IsTie(uint32_t sequences) const {
  if (best_ > 0 || sequences == 1 || noise_ > kEven * kEven) return false;
  if (times_.count() >= kMaxTiePhases * PhaseRounds(sequences)) return false;
  const double gain = Gain();
  const double error = std::hypot(times_.Error(sequences), TokensError(trial_));
  return gain > 0 && gain < kPlain + kGainOfOne + kErrorsFromPlain * error;
}

bool LengthSearch::MayBeGivenUp(double gain, uint32_t sequences) const {
  const bool may_come_into_step = best_ == 0 && sequences > 1 && gain > 4 * kHopeless;
  if (may_come_into_step && restarts_ < kRestartsBesidePlain) return false;
  return times_.Error(sequences) <= kUneven || restarts_ == kMaxRestarts ||
         trial_cost_ > kRestartCost * PhaseRounds(sequences) * before_;
}

void LengthSearch::Begin(Phase phase) {
  phase_ = phase;
  ++phase_number_;
  Clear();
}

void LengthSearch::Clear() {
  times_ = {};
  promising_ = false;
  extensions_ = restarts_ = 0;
  turn_ = 0;
  pairs_ = {};
}

void LengthSearch::Advance(const ByShape& tokens, const ByShape& times, uint32_t sequences,
                           const ByShape& token_errors) {
  token_errors_ = token_errors;
  const double mean = times_.mean();
  switch (phase_) {
    case Phase::kSteady:
      ++since_jump_;
      if (!is_warm_) return WarmUp(mean, sequences);
      if (IsJump(mean) && ++jump_phases_ < kJumpPhases) return Clear();
      if (jump_phases_ == kJumpPhases) Jumped();
      jump_phases_ = 0;
      CountNoise(mean);
      before_ += (mean - before_) * std::max(kMinSteadyWeight, 1.0 / ++steady_);
      Confirm(mean);
      return Steady(tokens, times, sequences);
    case Phase::kTrial:
      if (in_turn_) {
        const double worse =
            pairs_.second_seconds() - std::exp(more_tokens_) * pairs_.first_seconds();
        const auto [ratio, error] = pairs_.Compare();
        const double phases = 1.0 * pairs_.count() * kRoundsInTurn / PhaseRounds(sequences);
        return EndTrial(tokens, times, ratio, std::hypot(error, kMinPairsError),
                        phases * worse / pairs_.first_seconds());
      }
      trial_time_ = mean;
      tried_[trial_].took = 1 + static_cast<double>(times_.all_count()) / PhaseRounds(sequences);
      trial_error_ = times_.Error(sequences);
      return Begin(Phase::kAfter);
    case Phase::kAfter: {
      // A machine that changes its speed may have done so when the trial began, or when it ended.
      const double change = kChangeError * std::log(mean / before_);
      before_ += kAfterWeight * (mean - before_);
      repeats_.Add(
          std::log(trial_time_ / before_),
          std::hypot(TrialError(std::hypot(trial_error_, times_.Error(sequences))), change));
      if (IsRepeated(sequences)) return Begin(Phase::kTrial);
      const double phase = std::max<double>(times_.count(), 1) * before_;
      return EndTrial(tokens, times, repeats_.Mean(), repeats_.Error(), trial_cost_ / phase,
                      trial_lack_ / phase);
    }
  }
}

// On a machine that is uneven by itself, phases of the trial and of the best length go on in turn until they have decided.
bool LengthSearch::IsRepeated(uint32_t sequences) const {
  if (sequences > kMaxRepeatSequences || trial_ == 0 || best_ == 0) return false;
  if (noise_ < kRepeatNoise * kRepeatNoise || repeats_.count() >= kMaxRepeats) return false;
  if (trial_cost_ > kRepeatCost * PhaseRounds(sequences) * before_) return false;
  const double error = repeats_.Error();
  const double gain = more_tokens_ - repeats_.Mean();
  return error > kRepeatError && std::abs(gain) < 2 * std::hypot(error, TokensError(trial_));
}

// What has just started is slow, and a trial beside such rounds would be measured against them. Several sequences leave
// out one phase: prompts make their first passes uneven, and they come into step later than trials may wait.
void LengthSearch::WarmUp(double mean, uint32_t sequences) {
  if (sequences > 1) {
    is_warm_ = true;
  } else {
    is_warm_ = ++steady_ >= kMaxColdPhases || (before_ > 0 && mean > kWarm * before_);
    before_ = mean;
  }
  Clear();
}

// Phases of one length, one after the other, differ by what has nothing to do with the length.
void LengthSearch::CountNoise(double mean) {
  if (last_ > 0) {
    const double step = std::min(kMaxStep, std::abs(std::log(mean / last_)));
    noise_ += std::max(kMinNoiseWeight, 1.0 / ++noises_) * (step * step / 2 - noise_);
  }
  last_ = mean;
}

// Of the ratio of a trial to the steady phases around it, relative.
double LengthSearch::TrialError(double within) const {
  return std::hypot(std::min(within, kMaxError), std::sqrt(noise_));
}

// Of the ratio to the best length's tokens, relative.
double LengthSearch::TokensError(uint32_t length) const {
  return std::hypot(token_errors_[length], token_errors_[best_]);
}

void LengthSearch::ForgetOthers() {
  tried_.ForgetAllBut(best_, trial_);
  credit_.Renew();
  plain_credit_.Renew();
}

bool LengthSearch::IsJump(double mean) const {
  return before_ > 0 && std::abs(std::log(mean / before_)) > kJump;
}

// The rounds of the best length themselves have changed. Its own time is the measure of all others.
void LengthSearch::Jumped() {
  steady_ = 0;
  if (since_jump_ < kJumpWait) return;
  since_jump_ = 0;
  trial_ = best_;
  ForgetOthers();
}

void LengthSearch::Confirm(double mean) {
  if (confirms_ == 0) return;
  --confirms_;
  // Those that leave plain decoding come into step in the first one.
  if (left_ == 0 && confirms_ == kConfirms - 1) return;
  const double measured = tried_[left_].time + std::log(mean / left_time_);
  tried_[best_].Blend(measured, TrialError(0), kConfirmWeight);
}

void LengthSearch::Steady(const ByShape& tokens, const ByShape& times, uint32_t sequences) {
  if (tried_[best_].trials == 0) tried_[best_].trials = 1;
  const ByShape values = Values(tokens, times);
  credit_.Earn(/*is_half=*/sequences > 1 && IsClear(values));
  plain_credit_.Earn(/*is_half=*/true);  // these trials come beside the others
  tried_.PhaseEnded();
  if (confirms_ == 0) tried_.Anchor(best_);
  const uint32_t before = best_;
  Judge(values);
  if (best_ != before) {
    tried_[before].fails = std::min(tried_[before].fails + 2, kMaxFails);
    tried_[before].since = 0;
    return;
  }
  trial_ = NextTrial(values, times, BestShape(tokens, times), sequences);
  // The phase goes on under its number where nothing changes for the sequences.
  Clear();
  if (trial_ == best_) return;
  if (!IsPaid(trial_, values, times)) return;
  in_turn_ = sequences == 1 && trial_ > 0 && best_ > 0;
  Begin(Phase::kTrial);
  trial_cost_ = trial_lack_ = 0;
  repeats_ = {};
  best_tokens_ = tokens[best_];
  more_tokens_ = std::log(tokens[trial_] / tokens[best_]);
}

bool LengthSearch::IsPaid(uint32_t length, const ByShape& values, const ByShape& times) const {
  // One candidate is what many sequences take longest to come into step with, so its first trial may mislead. The
  // second waits for no credit.
  if (length == 1 && tried_[length].trials == 1) return true;
  const ByShape all = tried_.Times(times, best_);
  const double gain = values[length] - values[best_];
  const double phases = gain < kHopeless ? 0.8 : 2.0;
  double cost = phases * all[length] / all[best_] * std::max(1 - std::exp(gain), 0.02);
  // What its last trial has cost says more than the model of a trial. No draft is never dear to try.
  if (length > 0) cost = std::max(cost, tried_[length].cost);
  return (length == 0 ? plain_credit_ : credit_).Pays(cost, tried_[length].trials == 0);
}

void LengthSearch::EndTrial(const ByShape& tokens, const ByShape& times, double ratio, double error,
                            double cost, double lack) {
  TriedShapes::Tried& one = tried_[trial_];
  const double measured = tried_[best_].time + ratio;
  const bool surprise = one.trials > 0 && std::abs(measured - one.time) >
                                              std::max(kSurprise, 3 * std::hypot(one.error, error));
  if (surprise) ForgetOthers();
  if (surprise || one.trials == 0) {
    one.time = measured;
    one.error = error;
  } else {
    one.Blend(measured, error, kMaxTrialWeight);
  }
  const bool is_first = one.trials++ == 0;
  one.left = false;
  one.since = 0;
  const double gain = std::log(tokens[trial_] / tokens[best_]) - ratio;
  one.cost = cost;
  credit_.Charge(cost + lack, is_first);
  if (trial_ == 0) plain_credit_.Charge(cost + lack, is_first);
  const uint32_t before = best_;
  Begin(Phase::kSteady);
  const ByShape values = Values(tokens, times);
  Judge(values);
  if (best_ != before) {
    one.fails = one.open = 0;
    tried_[before].since = 0;
  } else if (IsOpen(values) && one.open < kMaxOpen) {
    ++one.open;
  } else {
    one.open = 0;
    if (one.fails < (gain < -error ? kMaxFails : kMaxUndecided)) ++one.fails;
  }
}

bool LengthSearch::IsOpen(const ByShape& values) const {
  return values[trial_] > values[best_] && tried_[trial_].error > kExact;
}

ByShape LengthSearch::Values(const ByShape& tokens, const ByShape& times) const {
  const ByShape all = tried_.Times(times, best_);
  ByShape values;
  for (uint32_t k = 0; k < kShapes; ++k) values[k] = std::log(tokens[k] / all[k]);
  values[0] += kPlain;
  return values;
}

void LengthSearch::Judge(const ByShape& values) {
  uint32_t better = best_;
  for (uint32_t k = 0; k < kShapes; ++k) {
    if (tried_[k].trials > 0 && values[k] > values[better]) better = k;
  }
  if (better == best_) return;
  const double gain = tried_[better].trials > 1 ? kGain : kGainOfOne;
  const double of_times = std::hypot(tried_[better].error, tried_[best_].error);
  const double error = std::hypot(of_times, TokensError(better)) * (best_ == 0    ? kErrorsFromPlain
                                                                    : better == 0 ? kErrorsToPlain
                                                                                  : kErrors);
  if (values[better] < values[best_] + std::max(gain, error)) return;
  // They failed beside another length.
  tried_.ForgiveFails();
  left_ = best_;
  left_time_ = before_;
  tried_[best_].left = true;
  // What begins otherwise than it goes on is found by rounds in turn, too.
  confirms_ = before_ > 0 && !in_turn_ ? kConfirms : 0;
  best_ = better;
  before_ = 0;
  steady_ = 0;
  last_ = 0;
  Begin(Phase::kSteady);
}

bool LengthSearch::IsClear(const ByShape& values) const {
  if (best_ > 0) return false;
  for (uint32_t k = 1; k < kShapes; ++k) {
    const double error = tried_[k].trials == 0 ? 0 : std::hypot(tried_[k].error, TokensError(k));
    if (values[k] + kClearErrors * error > values[0] - kClear) return false;
  }
  return true;
}

double LengthSearch::Wait(uint32_t length) const {
  const TriedShapes::Tried& one = tried_[length];
  if (one.trials == 0) return 0;
  const double wait = kWait * std::exp2(one.fails);
  return best_ == 0 ? wait * std::max(1.0, kWaitOfPlain * one.took) : wait;
}

uint32_t LengthSearch::NextTrial(const ByShape& values, const ByShape& times, uint32_t model,
                                 uint32_t sequences) const {
  uint32_t likely = best_ == 0 ? 1 : 0;
  for (uint32_t k = 1; k < kShapes; ++k) {
    if (k != best_ && values[k] > values[likely]) likely = k;
  }
  for (uint32_t k : {0u, 1u}) {
    if (k != best_ && tried_[k].trials == 0 && values[k] + kUnknown > values[best_]) return k;
  }
  for (uint32_t k = 2; best_ == 0 && sequences > 1 && k <= kShort; ++k) {
    if (tried_[k].trials == 0 && values[k] + kUnknownShort > values[best_]) return k;
  }
  uint32_t next = best_;
  double highest = -1e9;
  const auto is_due = [this](uint32_t k) { return k != best_ && tried_[k].since >= Wait(k); };
  // Whatever looks better does not keep none waiting: it may have to wait for its credit.
  if (is_due(0) && IsPaid(0, values, times)) return 0;
  for (uint32_t k = 1; k < kShapes; ++k) {
    if (!is_due(k)) continue;
    const double bonus = tried_.Bonus(k);
    const bool always = k == 1 || k == model || tried_[k].left || (best_ == 0 && k == likely);
    if (!always && values[k] + bonus < values[best_]) continue;
    if (values[k] + bonus > highest) {
      highest = values[k] + bonus;
      next = k;
    }
  }
  return next;
}

}  // namespace tandem::orchestrator
