#include "orchestrator/draft/choice/drafter_chooser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace tandem::orchestrator {
namespace {

constexpr double kMemory = 32;      // rounds of a text after which an old one counts 1/e
constexpr double kPriorRounds = 6;  // that the tokens of other texts count as
constexpr double kPriorTimes = 12;  // the same of their times
constexpr double kUnknownSpread = 0.5;
constexpr double kFirstTokens = 2;  // a round, where nothing at all is known

constexpr uint32_t kMaxTrial = 24;  // with those that do not count
constexpr double kExpectedTrial = 5;
constexpr double kMaxTrialCredit = 24;
constexpr double kShare = 0.03;         // of the rounds' time for further trials
constexpr double kChance = 0.5;         // that a trial shows what it may show at most
constexpr uint32_t kMaxTrialFails = 5;  // the wait doubles so often

constexpr double kGain = 0.05;       // to change, in the logarithm
constexpr double kEvidence = 4;      // rounds that allow a change without a trial
constexpr double kChange = 0.25;     // the best has got worse: the text is another one
constexpr double kChangeEvery = 48;  // rounds at least between two such
constexpr double kOldText = 0.25;    // what evidence of the text before is worth

constexpr uint32_t kMaxFaults = 2;
constexpr double kAway = 64;  // rounds; doubles
constexpr uint32_t kMaxTimesAway = 5;
constexpr double kLoadWeight = 0.1;
constexpr double kMaxRoundTime = 5;  // a round's time counts at most so many usual ones

bool IsFault(const RoundRecord& round) {
  switch (round.cause.value_or(PlainCause::kPolicyZero)) {
    case PlainCause::kDraftLost:
    case PlainCause::kDraftRefused:
    case PlainCause::kDraftInvalid:
    case PlainCause::kDraftStale:
      return true;
    default:
      return false;
  }
}

}  // namespace

DrafterChooser::DrafterChooser(std::vector<std::string> names,
                               std::shared_ptr<DrafterHistory> history, DrafterTrials trials)
    : names_(std::move(names)),
      history_(std::move(history)),
      trials_(trials),
      arms_(names_.size()) {
  TANDEM_CHECK(!names_.empty() && names_.size() <= kMaxDrafters && history_ != nullptr);
}

std::vector<DrafterChooser::Value> DrafterChooser::Values() const {
  std::vector<std::optional<DrafterHistory::Expectation>> expected;
  // Of a drafter of which nothing is known: as the others on average.
  double known = 0, tokens = 0, seconds = 0;
  for (size_t i = 0; i < names_.size(); ++i) {
    expected.push_back(history_->Expect(names_[i], level_));
    const Arm& arm = arms_[i];
    if (expected[i].has_value()) {
      known += 1;
      tokens += expected[i]->tokens;
      seconds += expected[i]->seconds;
    } else if (arm.weight > 0) {
      known += 1;
      tokens += arm.tokens / arm.weight;
      seconds += arm.seconds / arm.weight;
    }
  }
  tokens = known > 0 ? tokens / known : kFirstTokens;
  seconds = known > 0 ? seconds / known : 1;
  std::vector<Value> values;
  for (size_t i = 0; i < names_.size(); ++i) {
    const Arm& arm = arms_[i];
    const bool is_known = expected[i].has_value();
    const DrafterHistory::Expectation prior =
        is_known ? *expected[i]
                 : DrafterHistory::Expectation{tokens, kUnknownSpread * tokens, seconds};
    const double times = is_known || arm.weight == 0 ? kPriorTimes : 0;
    const double round = (times * prior.seconds + arm.seconds) / (times + arm.weight);
    const double gives = (kPriorRounds * prior.tokens + arm.tokens) / (kPriorRounds + arm.weight);
    const double more = prior.spread * std::sqrt(kPriorRounds / (kPriorRounds + arm.weight));
    values.push_back({std::log(gives / round), std::log((gives + more) / round), round,
                      prior.opening.value_or(round)});
  }
  return values;
}

std::optional<uint32_t> DrafterChooser::BestUsable(const std::vector<Value>& values) const {
  std::optional<uint32_t> best;
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    if (Usable(arms_[i]) && (!best.has_value() || values[i].rate > values[*best].rate)) best = i;
  }
  return best;
}

// A class is left when the load is clearly in another one. What rounds took under the old one says
// little then.
void DrafterChooser::SetLoad(uint32_t sequences) {
  load_ = load_ == 0 ? sequences : load_ + kLoadWeight * (sequences - load_);
  const auto rounded = static_cast<uint32_t>(std::lround(std::max(load_, 1.0)));
  const bool far = std::abs(load_ - level_) > 0.3 * level_ + 0.3;
  if (begun_ && (!far || DrafterHistory::LevelOf(rounded) == DrafterHistory::LevelOf(level_))) {
    return;
  }
  level_ = rounded;
  if (!begun_) return;
  for (Arm& arm : arms_) {
    for (double* sum : {&arm.weight, &arm.tokens, &arm.seconds}) *sum *= kOldText;
  }
}

void DrafterChooser::Begin() {
  const std::vector<Value> values = Values();
  // A drafter that nothing is known of seems as good as the others. Texts learn of it, below.
  std::optional<uint32_t> known;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (!history_->Expect(names_[i], level_).has_value()) continue;
    if (!known.has_value() || values[i].rate > values[*known].rate) known = i;
  }
  used_ = best_ = known.value_or(0);
  reason_ = DrafterReason::kFirst;
  credit_ = trials_.first_credit;
  uint32_t first = best_;
  for (uint32_t i = 0; i < names_.size(); ++i) {
    if (!history_->BeginToLearn(names_[i])) continue;
    first = i;
    break;
  }
  if (history_->BeginToRevisit() && first == best_) {
    for (uint32_t i = 0; i < names_.size(); ++i) {
      if (i != best_ && (first == best_ || values[i].at_most > values[first].at_most)) first = i;
    }
  }
  if (!history_->Expect(names_[best_], level_).has_value()) {
    best_ = used_ = first;  // nothing is known of any
  } else if (first != best_) {
    trial_ = true;
    used_ = first;
  }
}

DrafterChooser::~DrafterChooser() {
  for (uint32_t i = 0; i < arms_.size(); ++i) Tell(i);
}

void DrafterChooser::Tell(uint32_t drafter) {
  Arm& arm = arms_[drafter];
  if (arm.told || arm.first_rounds < 2) return;
  arm.told = true;
  const double rounds = arm.first_rounds;
  const double mean = arm.first_tokens / rounds;
  const double variance = std::max(0.0, arm.first_squares / rounds - mean * mean);
  history_->AddText(names_[drafter], level_, mean, variance / (rounds - 1));
}

void DrafterChooser::Use(uint32_t drafter) {
  if (drafter == used_) return;
  used_ = drafter;
  rounds_ = 0;
  switched_ = true;
}

void DrafterChooser::Keep(uint32_t drafter, DrafterReason reason) {
  best_ = drafter;
  reason_ = reason;
  Use(drafter);
}

double DrafterChooser::Wait(const Arm& arm) const {
  return arm.fails == 0 ? 0 : trials_.wait * std::exp2(arm.fails);
}

// What the rest of the text may win by a trial pays for it, and so does the credit.
bool DrafterChooser::Pays(const std::vector<Value>& values, uint32_t drafter,
                          uint32_t tokens_left) const {
  const Value& one = values[drafter];
  const Value& best = values[best_];
  const double rest = tokens_left / std::exp(best.rate);
  const double win = kChance * (1 - std::exp(best.rate - one.at_most)) * rest;
  const double trial =
      kExpectedTrial * one.seconds * std::max(0.0, 1 - std::exp(one.rate - best.rate));
  const double cost = trial + one.opening + best.opening;
  if (rest < 2 * kExpectedTrial * one.seconds) return false;
  return win > cost && cost <= credit_ * best.seconds;
}

void DrafterChooser::Steady(uint32_t tokens_left) {
  const std::vector<Value> values = Values();
  if (!Usable(arms_[best_])) {
    if (const auto other = BestUsable(values)) Keep(*other, DrafterReason::kOther);
    return;
  }
  NoticeChange(values);
  uint32_t better = best_;
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    const bool enough = Usable(arms_[i]) && arms_[i].weight >= kEvidence;
    if (enough && values[i].rate > values[better].rate) better = i;
  }
  const double gain = values[better].rate - values[best_].rate;
  const double rest = tokens_left / std::exp(values[best_].rate);
  if (gain > kGain && (1 - std::exp(-gain)) * rest > values[better].opening) {
    judged_ = values[better].rate;
    return Keep(better, DrafterReason::kBest);
  }
  std::optional<uint32_t> next;
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    const Arm& arm = arms_[i];
    if (i == best_ || !Usable(arm) || arm.since < Wait(arm)) continue;
    const bool promises =
        values[i].at_most >= values[best_].rate + kGain && Pays(values, i, tokens_left);
    if (!promises && !trials_.always) continue;
    if (!next.has_value() || values[i].at_most > values[*next].at_most) next = i;
  }
  if (!next.has_value()) return;
  trial_ = true;
  trial_rounds_ = trial_counted_ = 0;
  spent_seconds_ = spent_tokens_ = 0;
  returning_ = false;
  Use(*next);
}

void DrafterChooser::EndTrialIfDue() {
  const std::vector<Value> values = Values();
  Arm& arm = arms_[used_];
  const bool usable = Usable(arm);
  const bool hopeless =
      trial_counted_ >= trials_.min_rounds && values[used_].at_most < values[best_].rate;
  if (usable && !hopeless && trial_counted_ < trials_.rounds && trial_rounds_ < kMaxTrial) return;
  trial_ = false;
  Tell(used_);
  arm.since = 0;
  const bool better =
      usable && trial_counted_ > 0 && values[used_].rate > values[best_].rate + kGain;
  const double plain = spent_tokens_ / std::exp(values[best_].rate);  // seconds with the best
  credit_ -= std::max(0.0, spent_seconds_ - plain) / values[best_].seconds;
  spent_seconds_ = spent_tokens_ = 0;
  if (better || !Usable(arms_[best_])) {
    arm.fails = 0;
    arms_[best_].since = 0;
    judged_ = values[used_].rate;
    return Keep(used_, DrafterReason::kBest);
  }
  arm.fails = std::min(arm.fails + 1, kMaxTrialFails);
  judged_ = values[best_].rate;
  returning_ = true;
  Keep(best_, DrafterReason::kBest);
}

void DrafterChooser::NoticeChange(const std::vector<Value>& values) {
  const double rate = values[best_].rate;
  if (judged_ == 0 || rate > judged_) judged_ = rate;
  if (rate > judged_ - kChange || since_change_ < kChangeEvery) return;
  since_change_ = 0;
  judged_ = rate;
  credit_ = std::max(credit_, trials_.first_credit / 2);
  for (uint32_t i = 0; i < arms_.size(); ++i) {
    Arm& arm = arms_[i];
    arm.fails = 0;
    if (i == best_) continue;
    for (double* sum : {&arm.weight, &arm.tokens, &arm.seconds}) *sum *= kOldText;
  }
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
  const std::string& name = names_[used_];
  double seconds = absl::ToDoubleSeconds(round.without_prefill());
  const double tokens = round.accepted_tokens + 1.0;
  const bool first = rounds_++ == 0;
  ++since_change_;
  for (Arm& one : arms_) {
    one.since += 1;
    one.away = std::max(0.0, one.away - 1);
  }
  if (trial_ || returning_) {
    spent_seconds_ += seconds;
    spent_tokens_ += tokens;
    ++trial_rounds_;
  } else {
    credit_ = std::min(credit_ + kShare, kMaxTrialCredit);
  }
  if (std::exchange(returning_, false)) {
    const double best = std::exp(Values()[best_].rate);
    credit_ -= std::max(0.0, spent_seconds_ - spent_tokens_ / best) / Values()[best_].seconds;
  }
  if (IsFault(round)) {
    if (round.cause == PlainCause::kDraftRefused) arm.refused = true;
    if (++arm.faults < kMaxFaults) return;
    arm.faults = 0;
    arm.away = kAway * std::exp2(arm.times_away);
    arm.times_away = std::min(arm.times_away + 1, kMaxTimesAway);
    return;
  }
  arm.faults = 0;
  const auto expected = history_->Expect(name, level_);
  if (first) {
    const bool opened = std::exchange(switched_, false) && round.asked_tokens > 0;
    if (opened && expected.has_value()) {
      history_->AddOpening(name, std::max(0.0, seconds - expected->seconds));
    }
    if (round.asked_tokens > 0) return;  // it read the text
  }
  if (round.choice->trial || round.asked_tokens != round.choice->tokens) return;
  if (arm.weight > 1) seconds = std::min(seconds, kMaxRoundTime * arm.seconds / arm.weight);
  for (Arm& one : arms_) {
    for (double* sum : {&one.weight, &one.tokens, &one.seconds}) *sum *= 1 - 1 / kMemory;
  }
  arm.weight += 1;
  arm.tokens += tokens;
  arm.seconds += seconds;
  if (trial_) ++trial_counted_;
  if (!trial_ && arm.weight >= trials_.rounds && reason_ == DrafterReason::kFirst) {
    reason_ = DrafterReason::kBest;
  }
  history_->AddRound(name, level_, seconds);
  if (arm.told) return;
  arm.first_tokens += tokens;
  arm.first_squares += tokens * tokens;
  if (++arm.first_rounds == trials_.rounds) Tell(used_);
}

}  // namespace tandem::orchestrator
