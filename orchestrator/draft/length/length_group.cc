#include "orchestrator/draft/length/length_group.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tandem::orchestrator {
namespace {

constexpr double kForget = 0.98;  // of the line through the draft's times, a round
constexpr double kWeight = 0.05;  // of a new time or load in a moving average
constexpr double kFirstPass = 10e-3;
constexpr double kClearly = 1.1;  // so much better must a shape be by the model to begin with it
// Candidates that a longer block has to have more.
constexpr double kAnother = 0.05;
// Tests a position that are kept of another load.
constexpr double kOthersWeight = 64;

void Average(double measured, double weight, double& average) {
  average = average < 0 ? measured : average + weight * (measured - average);
}
void Average(double measured, double& average) { Average(measured, kWeight, average); }

// The draft is not there or does not fit. That says nothing of what a block brings.
bool IsDraftsFault(const RoundRecord& round) {
  if (!round.cause.has_value()) return false;
  switch (*round.cause) {
    case PlainCause::kDraftLost:
    case PlainCause::kDraftRefused:
    case PlainCause::kDraftInvalid:
    case PlainCause::kDraftStale:
      return true;
    case PlainCause::kFirstRound:
    case PlainCause::kOff:
    case PlainCause::kPolicyZero:
    case PlainCause::kDraftLate:
    case PlainCause::kDraftEmpty:
      break;
  }
  return false;
}

// Seconds by the target's own curve; 0: not known.
double ReportedPass(const LengthInputs& inputs, double rows) {
  return absl::ToDoubleSeconds(
      inputs.pass_time(static_cast<uint32_t>(std::max(1.0, std::ceil(rows)))));
}

// Nothing was decided for so many times what the next round takes, and for so long: the requests have paused.
constexpr int64_t kPause = 2;
constexpr absl::Duration kMinPause = absl::Milliseconds(100);
// Of each of several sequences after a pause: they count for no shape.
constexpr uint32_t kStartRounds = 6;

// Without drafts only the load, the passes and what the peers take change. So much of the search's time goes to the
// model that it is asked again after so many phases.
constexpr uint32_t kExpectedPhases = 8;

uint32_t Whole(double load) { return std::max(1u, static_cast<uint32_t>(std::lround(load))); }

}  // namespace

void LengthGroup::Line::Add(double length, double seconds) {
  for (double* sum : {&weight, &k, &t, &kk, &kt}) *sum *= kForget;
  weight += 1;
  k += length;
  t += seconds;
  kk += length * length;
  kt += length * seconds;
}

// With one length only, all of the time is its tokens'.
double LengthGroup::Line::PerToken() const {
  if (weight == 0) return 0;
  const double spread = weight * kk - k * k;
  if (spread < 0.01 * weight * kk) return t / k;
  return std::clamp((weight * kt - k * t) / spread, 0.0, t / k);
}

double LengthGroup::Line::Fixed() const {
  return weight == 0 ? 0 : std::max(0.0, (t - PerToken() * k) / weight);
}

void LengthGroup::Level::Estimate() {
  if (!acceptance.empty()) estimates.alpha = acceptance.alpha();
  if (draft.weight > 0) estimates.draft_token = absl::Seconds(draft.PerToken());
}

LengthGroup::LengthGroup(bool ends_by_confidence)
    : ends_by_confidence_(ends_by_confidence), levels_(kLoads * kContexts) {}

// Loads 1, 2, 3-5, 6-11, 12-23, …: powers of two lie in the middle. Contexts to 1024, 4096, 16384, and more.
uint32_t LengthGroup::LevelOf(double sequences, uint32_t context) {
  uint32_t load = 0;
  for (double end = 1.5; sequences >= end && load + 1 < kLoads; end *= 2) ++load;
  uint32_t length = 0;
  for (uint32_t end = 1024; context > end && length + 1 < kContexts; end *= 4) ++length;
  return length * kLoads + load;
}

// A new load or context takes over what is known of the nearest one.
LengthGroup::Level& LengthGroup::At(uint32_t level, const LengthInputs& inputs) {
  Level& at = levels_[level];
  if (at.search != nullptr) return at;
  const Level* near = nullptr;
  int nearest = kLoads + kContexts;
  for (uint32_t other = 0; other < levels_.size(); ++other) {
    if (levels_[other].search == nullptr) continue;
    const int away = std::abs(static_cast<int>(other % kLoads) - static_cast<int>(level % kLoads)) +
                     std::abs(static_cast<int>(other / kLoads) - static_cast<int>(level / kLoads));
    if (away >= nearest) continue;
    nearest = away;
    near = &levels_[other];
  }
  if (near == nullptr) {
    at.search = std::make_unique<LengthSearch>(FirstShape(at, kFirst, inputs));
    return at;
  }
  at.draft = near->draft;
  at.draft_network = near->draft_network;
  at.target_network = near->target_network;
  at.pass = near->pass;
  at.pass_rows = near->pass_rows;
  at.pass_sequences = near->pass_sequences;
  at.confident = near->confident;
  at.acceptance = near->acceptance;
  at.acceptance.Fade(kOthersWeight);
  at.Estimate();
  const uint32_t first = FirstShape(at, near->search->best(), inputs);
  at.search = std::make_unique<LengthSearch>(first);
  return at;
}

uint32_t LengthGroup::FirstShape(const Level& level, uint32_t found,
                                 const LengthInputs& inputs) const {
  const auto pass_time = [&](double rows) { return ReportedPass(inputs, rows); };
  if (pass_time(1) <= 0) return found;  // without the curve the model knows too little
  const Expected expected = Expect(level, load_, pass_time);
  ByShape tokens = expected.tokens;
  for (uint32_t i = 0; i < kShapes; ++i) {
    const bool is_short = i <= std::min(kFirst, inputs.max_draft_tokens);
    if (!is_short && i != found) tokens[i] = LengthSearch::kNotOffered;
  }
  const ByShape times = RoundTimes(expected.parts, pass_time);
  const uint32_t best = BestShape(tokens, times);
  return tokens[best] / times[best] > kClearly * tokens[found] / times[found] ? best : found;
}

LengthGroup::Expected LengthGroup::Expect(const Level& level, double sequences,
                                          absl::FunctionRef<double(double)> pass_time) const {
  Expected expected;
  RoundParts& parts = expected.parts;
  parts.sequences = std::max(1.0, sequences);
  parts.draft_fixed = level.draft.Fixed();
  parts.draft_token = level.draft.PerToken();
  parts.draft_network = std::max(0.0, level.draft_network);
  parts.target_network = std::max(0.0, level.target_network);
  ByShape& tokens = expected.tokens;
  tokens.fill(LengthSearch::kNotOffered);
  const double text_tokens =
      texts_ > 0 ? text_tokens_ / texts_ : std::numeric_limits<double>::infinity();
  for (uint32_t i = 0; i <= kMaxDraftTokens; ++i) {
    tokens[i] = level.acceptance.TokensInTexts(i, text_tokens);
    parts.drafted[i] = level.acceptance.Drafted(i);
  }
  // Until a chain that ends by confidence was seen, it is expected to be as good as the best other one.
  const uint32_t chain = std::max(1u, BestShape(tokens, RoundTimes(parts, pass_time)));
  for (uint32_t i = kFirstConfident; i < kFirstTree; ++i) {
    tokens[i] = level.confident.Tokens(i, tokens[chain]);
    expected.errors[i] = level.confident.TokensError(i);
    parts.drafted[i] = level.confident.Candidates(i, parts.drafted[chain]);
  }
  for (uint32_t i = kFirstTree; i < kShapes; ++i) {
    tokens[i] = trees_.Tokens(i, tokens[kMaxDraftTokens]);
    expected.errors[i] = trees_.TokensError(i);
    parts.drafted[i] = trees_.Nodes(i);
  }
  return expected;
}

// What the peers take, and what is another block than the one before.
void LengthGroup::LeaveOut(const Level& level, const LengthInputs& inputs, ByShape& tokens) const {
  for (uint32_t i = 0; i < kShapes; ++i) {
    const DraftShape shape = ShapeOf(i);
    bool offered = shape.tokens <= inputs.max_draft_tokens && shape.nodes <= inputs.max_nodes;
    if (IsConfident(i)) {
      // The others are expected to be as the first one.
      offered = ends_by_confidence_ && inputs.ends_by_confidence &&
                (i == kMiddleConfident || !level.confident.empty());
    } else if (i > 1 && i <= kMaxDraftTokens && i != level.search->best()) {
      // Where blocks end before, a longer one is the same block: to compare them is to compare noise.
      offered = offered && level.acceptance.Drafted(i) - level.acceptance.Drafted(i - 1) > kAnother;
    }
    if (!offered) tokens[i] = LengthSearch::kNotOffered;
  }
}

LengthChoice LengthGroup::Next(uint32_t sequences, LengthInputs inputs, Sequence& sequence) {
  concurrency::MutexLock lock(mutex_);
  if (inputs.draft_is_known) {
    max_nodes_ = inputs.max_nodes;
    draft_ends_by_confidence_ = inputs.ends_by_confidence;
  } else {
    inputs.max_nodes = max_nodes_;
    inputs.ends_by_confidence = draft_ends_by_confidence_;
  }
  if (load_ == 0) load_ = sequences;
  Average(sequences, load_);
  const uint32_t level = LevelOf(load_, inputs.context);
  Level& at = At(level, inputs);
  if (std::exchange(at.due, false)) Advance(at, std::max(load_, at.pass_sequences), inputs);
  if (sequence.level != level || sequence.phase != at.search->phase()) {
    sequence.level = level;
    sequence.phase = at.search->phase();
    sequence.rounds = 0;
  }
  sequence.shape = at.search->length();
  const DraftShape shape = ShapeOf(sequence.shape);
  LengthChoice choice;
  // Where a peer has changed the best one may not be to be had. The next phase takes another.
  choice.tokens = std::min(shape.tokens, inputs.max_draft_tokens);
  choice.nodes = std::min(shape.nodes, inputs.max_nodes);
  choice.trial = at.search->is_trial();
  choice.min_confidence = shape.min_confidence;
  choice.estimates = at.estimates;
  if (choice.min_confidence > 0) choice.estimates.min_confidence = choice.min_confidence;
  if (choice.tokens == 0) choice.zero = at.zero.value_or(ZeroCause::kSlowDraft);
  return choice;
}

bool LengthGroup::Drafts(uint32_t sequences, uint32_t context) const {
  concurrency::MutexLock lock(mutex_);
  const Level& at = levels_[LevelOf(load_ == 0 ? sequences : load_, context)];
  return at.search == nullptr || at.search->best() > 0;
}

void LengthGroup::CountAccepted(const RoundRecord& round, Sequence& sequence) {
  if (round.choice->nodes > 0 || round.asked_tokens == 0) BlockReplay::Interrupt(sequence.text);
  if (round.choice->nodes > 0) {
    if (IsTree(sequence.shape)) {
      trees_.Observe(sequence.shape, round.draft_tokens, round.accepted_tokens);
    }
    return;
  }
  Level& level = levels_[sequence.level];
  if (IsConfident(sequence.shape)) {
    level.confident.Observe(sequence.shape, round.length(), round.accepted_tokens);
  }
  if (round.asked_tokens == 0) return;
  if (round.choice->min_confidence > 0) {
    level.acceptance.ObserveConfident(std::min(round.length(), kMaxDraftTokens),
                                      round.accepted_tokens, sequence.text);
  } else {
    level.acceptance.Observe(std::min(round.asked_tokens, kMaxDraftTokens), round.length(),
                             round.accepted_tokens, sequence.text);
  }
}

void LengthGroup::Observe(const RoundRecord& round, Sequence& sequence) {
  if (!round.choice.has_value() || IsDraftsFault(round)) {
    BlockReplay::Interrupt(sequence.text);
    return;
  }
  concurrency::MutexLock lock(mutex_);
  CountAccepted(round, sequence);
  sequence.tokens += round.tokens;
  Level& at = levels_[sequence.level];
  const double network = absl::ToDoubleSeconds(round.stages.network);
  if (round.asked_tokens == 0) {
    Average(network, at.target_network);
  } else {
    at.expected.reset();
    if (!round.cause.has_value()) {
      if (round.choice->nodes == 0) {
        at.draft.Add(round.length(), absl::ToDoubleSeconds(round.stages.draft));
      }
      Average(std::max(0.0, network - std::max(0.0, at.target_network)), at.draft_network);
    }
    at.Estimate();
  }
  if (at.pass == 0) {
    at.pass = absl::ToDoubleSeconds(round.stages.device);
    at.pass_rows = round.pass_rows;
  }
  // The passes of a trial are others.
  if (!at.search->is_trial()) {
    Average(absl::ToDoubleSeconds(round.stages.device), at.pass);
    Average(round.pass_rows, at.pass_rows);
    Average(round.pass_sequences, at.pass_sequences);
  }
  const LengthSearch::Round observed = {absl::ToDoubleSeconds(round.without_prefill()),
                                        static_cast<double>(round.tokens), round.draft_tokens};
  const bool is_start = IsStart(round);
  if (is_start || sequence.phase != at.search->phase() || sequence.shape != at.search->length()) {
    at.search->CountCost(observed, sequence.shape);
    return;
  }
  at.due = at.search->Observe(observed, ++sequence.rounds > kSettle, Whole(load_));
}

// Requests that begin together share few passes while prompts are read, and their rounds are fast. A trial that such a
// start falls into would be compared with rounds from before the pause.
bool LengthGroup::IsStart(const RoundRecord& round) {
  const absl::Duration pause = round.began - last_decided_.value_or(round.began);
  if (pause > kMinPause && pause > kPause * (round.decided - round.began)) since_pause_ = 0;
  last_decided_ = std::max(last_decided_.value_or(round.decided), round.decided);
  const uint32_t sequences = Whole(load_);
  if (since_pause_ >= kStartRounds * sequences || sequences == 1) return false;
  ++since_pause_;
  return true;
}

void LengthGroup::Ended(const Sequence& sequence) {
  if (sequence.tokens == 0) return;
  concurrency::MutexLock lock(mutex_);
  if (texts_ >= kTexts) {
    texts_ *= 0.5;
    text_tokens_ *= 0.5;
  }
  texts_ += 1;
  text_tokens_ += static_cast<double>(sequence.tokens);
}

void LengthGroup::Advance(Level& level, double sequences, const LengthInputs& inputs) {
  // The target's own curve; without one, half of a measured pass is fixed, and half follows rows. The model asks for
  // the same passes several times, and a reported one takes longer to look up than all the rest.
  absl::flat_hash_map<double, double> known;
  const auto pass_time = [&](double rows) {
    const auto [time, is_new] = known.try_emplace(rows);
    if (!is_new) return time->second;
    const double reported = ReportedPass(inputs, rows);
    if (reported > 0) return time->second = reported;
    if (level.pass <= 0 || level.pass_rows <= 0) return time->second = kFirstPass;
    return time->second = level.pass * (0.5 + 0.5 * rows / level.pass_rows);
  };
  const bool asks = !level.expected.has_value() || ++level.expected_phases >= kExpectedPhases;
  if (asks) {
    Expected& expected = level.expected.emplace(Expect(level, sequences, pass_time));
    LeaveOut(level, inputs, expected.tokens);
    expected.times = RoundTimes(expected.parts, pass_time);
    level.expected_phases = 0;
  }
  const Expected& expected = *level.expected;
  level.search->Advance(expected.tokens, expected.times, Whole(load_), expected.errors);
  if (level.search->best() > 0) {
    level.zero.reset();
  } else if (asks || !level.zero.has_value()) {
    level.zero = WhyZero(expected.parts, pass_time, expected.tokens);
  }
}

}  // namespace tandem::orchestrator
