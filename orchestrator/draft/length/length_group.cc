#include "orchestrator/draft/length/length_group.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::orchestrator {
namespace {

constexpr double kFirstPass = 10e-3;      // seconds; before anything is known of the target
constexpr double kFirstDraftToken = 0.1;  // of a pass of one row; before anything was drafted

void Average(double measured, double weight, double& average) {
  average = average < 0 ? measured : average + weight * (measured - average);
}

}  // namespace

void LengthGroup::Line::Add(double length, double seconds) {
  for (double* sum : {&weight, &k, &t, &kk, &kt}) *sum *= 1 - 1 / kLengthMemory;
  weight += 1;
  k += length;
  t += seconds;
  kk += length * length;
  kt += length * seconds;
}

void LengthGroup::Line::Fade(double rounds) {
  const double kept = std::min(1.0, rounds / std::max(weight, 1.0));
  for (double* sum : {&weight, &k, &t, &kk, &kt}) *sum *= kept;
}

// With one length only, all of the time is its tokens'.
double LengthGroup::Line::PerToken() const {
  const double spread = weight * kk - k * k;
  if (spread < 0.01 * weight * kk) return t / k;
  return std::clamp((weight * kt - k * t) / spread, 0.0, t / k);
}

double LengthGroup::Line::Fixed() const { return std::max(0.0, (t - PerToken() * k) / weight); }

// By the target's own curve. Without one, half of a measured pass is fixed, and half follows its
// rows.
double LengthGroup::PassSeconds(const LengthInputs& inputs, double rows) const {
  rows = std::max(rows, 1.0);
  const auto whole = static_cast<uint32_t>(rows);
  const double below = absl::ToDoubleSeconds(inputs.pass_time(whole));
  if (below <= 0) return pass_ <= 0 ? kFirstPass : pass_ * (0.5 + 0.5 * rows / pass_rows_);
  const double part = rows - whole;
  if (part == 0) return below;
  return below + part * (absl::ToDoubleSeconds(inputs.pass_time(whole + 1)) - below);
}

bool LengthGroup::Offered(uint32_t shape, const LengthInputs& inputs) const {
  const DraftShape is = ShapeOf(shape);
  if (is.tokens > inputs.max_draft_tokens || is.nodes > inputs.max_nodes) return false;
  return !IsConfident(shape) || (ends_by_confidence_ && inputs.ends_by_confidence);
}

// What was measured at lengths whose rounds are of the same kind tells of each other. Plain
// decoding has none: PlainCheck measures it.
double LengthGroup::CorrectionOf(uint32_t shape) const {
  if (shape == 0) return 0;
  constexpr double kPrior = 0.3;  // of no correction; 1: kLengthMemory rounds
  double log = 0, weight = kPrior;
  for (uint32_t other = 1; other < kShapes; ++other) {
    if (times_[other].gathered != times_[shape].gathered) continue;
    if (other != shape && !(IsChain(shape) && IsChain(other))) continue;
    const double away = std::abs(static_cast<double>(other) - shape);
    const double counts = std::exp2(-kOtherLength * away) * corrections_[other].weight;
    log += counts * corrections_[other].log;
    weight += counts;
  }
  return log / weight;
}

// No longer than what rounds that asked the draft had for both.
double LengthGroup::TargetNetwork() const {
  const double way = std::max(0.0, target_network_);
  return both_networks_ < 0 ? way : std::min(way, both_networks_);
}

// Where no round was plain yet, both count as the draft's.
double LengthGroup::DraftNetwork() const { return std::max(0.0, both_networks_ - TargetNetwork()); }

RoundParts LengthGroup::PartsOf(const LengthInputs& inputs, const ByShape& drafted) const {
  RoundParts parts{.decoding = inputs.decoding, .drafted = drafted};
  const bool has_drafted = draft_.weight > 0;
  parts.draft_token =
      has_drafted ? draft_.PerToken() : kFirstDraftToken * PassSeconds(inputs, /*rows=*/1);
  parts.draft_fixed = has_drafted ? draft_.Fixed() : 0;
  parts.draft_network = DraftNetwork();
  parts.target_network = TargetNetwork();
  return parts;
}

// Of those that are nearly as good as `best`, the one that is nearest to what the target decodes.
uint32_t LengthGroup::NearestToAll(uint32_t best, const ByShape& rates, const RoundParts& parts) {
  // Not before all have drafted for a while: until then the target's average says nothing.
  if (!best_.has_value()) return best;
  const double all = parts.decoding.draft_tokens.value_or(parts.drafted[*best_]);
  const auto away = [&](uint32_t shape) { return std::abs(parts.drafted[shape] - all); };
  uint32_t nearest = best;
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    shared_[shape] = away(shape) <= kAboutAsMuch * (parts.drafted[shape] + 1);
    if (rates[shape] >= (1 - kNearlyAsGood) * rates[best] && away(shape) < away(nearest)) {
      nearest = shape;
    }
  }
  return nearest;
}

RoundTime LengthGroup::PreparedTimeOf(const LengthInputs& inputs, const RoundParts& parts,
                                      PassTime pass_time, uint32_t shape) {
  RoundTime best = TimeOf(parts, pass_time, shape);
  outcomes_[shape] = 0;
  if (shape == 0 || !IsChain(shape) || parts.decoding.sequences > kMaxPreparing) return best;
  for (const uint32_t outcomes : PreparingEstimate::kOutcomes) {
    // None before the draft's time is known: late blocks alone do not tell it.
    if (outcomes > inputs.max_outcomes || draft_.weight == 0) break;
    const double hits = preparing_.Hits(acceptance_.alpha(), shape, outcomes);
    const RoundTime time =
        TimeOf(parts, pass_time, shape, {outcomes, hits, preparing_.row(), inputs.target_chains});
    if (time.time >= (1 - kOutcomesPay) * best.time) continue;
    best = time;
    outcomes_[shape] = outcomes;
  }
  return best;
}

void LengthGroup::Decide(const LengthInputs& inputs) {
  const auto pass_time = [&](double rows)
                             TANDEM_REQUIRES(mutex_) { return PassSeconds(inputs, rows); };
  AcceptanceEstimate::Expected expected = acceptance_.Expect(chain_);
  const RoundParts parts = PartsOf(inputs, expected.drafted);
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    times_[shape] = PreparedTimeOf(inputs, parts, pass_time, shape);
  }
  ByShape rates{};
  uint32_t best = 0;
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    if (!Offered(shape, inputs)) {
      expected.tokens[shape] = 0;
      continue;
    }
    rates[shape] = expected.tokens[shape] / (times_[shape].time * std::exp(CorrectionOf(shape)));
    if (shape == 0) rates[shape] *= 1 + kMargin;
    if (rates[shape] > rates[best]) best = shape;
    if (shape == kMaxDraftTokens) chain_ = std::max(best, 1u);
  }
  const double drafting = *std::max_element(rates.begin() + 1, rates.end());
  best = NearestToAll(best, rates, parts);
  const uint32_t sequences = std::min(inputs.decoding.sequences, kDecideAtLeast);
  if (inputs.alone_at_target && plain_check_.Overrules(drafting, rates[0], sequences)) best = 0;
  const bool stays = std::exchange(best_, best) == best;
  if (best == 0) {
    zero_ = WhyZero(parts, pass_time, expected.tokens);
    if (stays) ProbeIfDue(rates);
  } else {
    wait_ = kFirstWait;
    plain_ = 0;
  }
  if (!acceptance_.empty()) estimates_.alpha = acceptance_.alpha();
  if (draft_.weight > 0) estimates_.draft_token = absl::Seconds(draft_.PerToken());
}

// What probes lose is a bounded share of the time, whether each loses much or little.
void LengthGroup::ProbeIfDue(const ByShape& rates) {
  constexpr double kMinCost = 0.1;  // it disturbs others, too
  const auto shape =
      static_cast<uint32_t>(std::max_element(rates.begin() + 1, rates.begin() + 5) - rates.begin());
  if (rates[shape] <= 0) return;
  if (++plain_ < wait_ * std::max(kMinCost, rates[0] / rates[shape] - 1)) return;
  plain_ = 0;
  wait_ = std::min(2 * wait_, kMaxWait);
  probe_ = shape;
  draft_.Fade(kProbeRounds);  // what is measured now counts more
}

LengthChoice LengthGroup::Next(LengthInputs inputs, Sequence& sequence) {
  concurrency::MutexLock lock(mutex_);
  if (inputs.draft_is_known) {
    max_nodes_ = inputs.max_nodes;
    draft_ends_by_confidence_ = inputs.ends_by_confidence;
  } else {
    inputs.max_nodes = max_nodes_;
    inputs.ends_by_confidence = draft_ends_by_confidence_;
  }
  const bool plainly = plain_check_.Runs();
  if (!best_.has_value() || (!plainly && ++rounds_ >= std::clamp(inputs.decoding.sequences,
                                                                 kDecideEvery, kDecideAtLeast))) {
    rounds_ = 0;
    Decide(inputs);
  }
  if (probe_.has_value()) {
    sequence.probe_shape = *probe_;
    sequence.probe_rounds = kProbeRounds;
    sequence.has_drafted = false;
    probe_.reset();
  }
  if (*best_ > 0) sequence.probe_rounds = 0;
  const bool probes = sequence.probe_rounds > 0;
  if (probes) --sequence.probe_rounds;
  const uint32_t chosen = plainly ? 0 : probes ? sequence.probe_shape : *best_;
  sequence.rounds = chosen == sequence.shape ? sequence.rounds + 1 : 1;
  sequence.shape = chosen;
  const DraftShape shape = ShapeOf(chosen);
  LengthChoice choice;
  // Where a peer has changed the best one may be unavailable. The next decision takes another.
  choice.tokens = std::min(shape.tokens, inputs.max_draft_tokens);
  choice.nodes = std::min(shape.nodes, inputs.max_nodes);
  choice.outcomes = outcomes_[chosen];
  choice.trial = probes;
  choice.min_confidence = shape.min_confidence;
  choice.estimates = estimates_;
  if (choice.min_confidence > 0) choice.estimates.min_confidence = choice.min_confidence;
  if (choice.tokens == 0) choice.zero = zero_;
  return choice;
}

bool LengthGroup::Drafts() const {
  concurrency::MutexLock lock(mutex_);
  return best_.value_or(1) > 0;
}

void LengthGroup::Observe(const RoundRecord& round, Sequence& sequence) {
  if (round.DraftFailed()) {
    sequence.has_drafted = false;
    return;
  }
  // One that waits for the draft to read is excused; one that the draft has nothing for is not.
  const bool reads = round.asked_tokens > 0 && !std::exchange(sequence.has_drafted, true);
  if (reads && round.cause == PlainCause::kDraftLate) return;
  concurrency::MutexLock lock(mutex_);
  const double aside = absl::ToDoubleSeconds(round.stages.network + round.stages.own);
  const bool asked = !WasPrepared(round.prepared);
  // A block that was late goes on with what was prepared of it, and may take less time.
  const bool drafted_anew = asked && round.prepared != PreparedUse::kLate;
  preparing_.Observe(round, acceptance_.alpha(), draft_.weight > 0 ? draft_.PerToken() : 0,
                     DraftNetwork());
  if (round.asked_tokens == 0) {
    // What lies between the passes of a long prompt does not belong to the way.
    const bool one_pass = round.choice.has_value() || round.committed <= round.pass_rows;
    if (one_pass) Average(aside, kWeight, target_network_);
  } else {
    const uint32_t came = round.tree ? round.draft_tokens : round.length();
    // A prepared block has the length that was chosen when its draft was asked last.
    const uint32_t most = asked ? round.asked_tokens : round.prepared_tokens;
    acceptance_.Observe(sequence.shape, std::min(round.asked_tokens, most), came,
                        round.accepted_tokens);
    if (reads) return;
    if (!round.cause.has_value()) {
      if (!round.tree && drafted_anew) {
        draft_.Add(round.length(), absl::ToDoubleSeconds(round.stages.draft));
      } else if (round.prepared == PreparedUse::kLate) {
        // Without the pass that was under way: at most the whole block, and less if some of it was
        // prepared. So only what takes as long as a whole one says how long that takes.
        const double left = absl::ToDoubleSeconds(round.stages.draft - round.draft_queue);
        if (left >= round.length() * draft_.PerToken()) draft_.Add(round.length(), left);
      }
      if (asked) Average(aside, kWeight, both_networks_);
    }
  }
  if (!round.choice.has_value()) return;
  Average(absl::ToDoubleSeconds(round.stages.device), kWeight, pass_);
  Average(std::max(1u, round.pass_rows), kWeight, pass_rows_);
  // The first rounds of a length still share passes with others'. One that the text's end has cut
  // short is of another, and of one that waited for prompts the rest says little.
  if (sequence.rounds <= 2 || round.asked_tokens != round.choice->tokens) return;
  if (!asked && round.prepared_tokens != round.choice->tokens) return;
  if (round.prefill > 0.1 * (round.decided - round.began)) return;
  if (sequence.shape == 0) {
    plain_check_.Observe(sequence.rounds, absl::ToDoubleSeconds(round.without_prefill()));
  }
  // The model is of all that do the same: while others draft less, a round of ours is faster than
  // it says.
  if (!shared_[sequence.shape]) return;
  const double model = times_[sequence.shape].time;
  const double seconds = absl::ToDoubleSeconds(round.without_prefill());
  if (model <= 0 || seconds <= 0) return;
  Correction& correction = corrections_[sequence.shape];
  correction.weight = std::min(correction.weight + 1 / kLengthMemory, 1.0);
  const double log = std::clamp(std::log(seconds / model), -2.0, 2.0);
  correction.log += (log - correction.log) / (kLengthMemory * correction.weight);
}

}  // namespace tandem::orchestrator
