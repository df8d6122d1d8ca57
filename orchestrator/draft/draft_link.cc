#include "orchestrator/draft/draft_link.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/random/random.h"
#include "orchestrator/draft/average.h"

namespace tandem::orchestrator {
namespace {

constexpr base::DraftAttempt kFirstAttempt{1};

constexpr double kSilenceFactor = 8;    // of the usual time
constexpr double kSilenceTokens = 256;  // of prefix to compute: worth another draft_silence

}  // namespace

DraftLink::DraftLink(const SampleRequest& request, const LoopOptions& options,
                     const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
                     const concurrency::Clock& clock, RoundObserver& observer)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      timers_(timers),
      clock_(clock),
      observer_(observer),
      drafter_(request->drafter),
      state_(session == nullptr || request->draft_tokens == 0u ? State::kOff : State::kClosed),
      backoff_(options.backoff_min, options.backoff_max,
               RetrySeed(request->retry_seed, request.sample_index())) {}

void DraftLink::Use(const std::string& drafter) {
  if (drafter == drafter_) return;
  drafter_ = drafter;
  if (state_ == State::kOff) return;
  if (state_ == State::kRefused) state_ = State::kClosed;  // that was the other one
  Close();
  switched_ = true;
}

void DraftLink::Open() {
  if (state_ == State::kOff || state_ == State::kRefused) return;
  state_ = State::kOpening;
  base::Advance(attempt_);
  round_ = 0;
  usual_ = absl::ZeroDuration();
  outcome_.reset();
  asked_at_ = clock_.Now();
  allowed_ = options_.draft_silence;
  const DraftOpen open = MakeOpen();
  told_ = static_cast<uint32_t>(open.prefix.tokens.size());
  session_->Open(open);
}

DraftOpen DraftLink::MakeOpen() const {
  DraftOpen open;
  open.attempt = attempt_;
  open.drafter = drafter_;
  open.proposal = request_->proposal;
  speculation::SequenceSettings& settings = open.settings;
  settings.sampling = request_->sampling;
  if (request_->draft_temperature.has_value()) {
    settings.sampling.temperature = *request_->draft_temperature;
  }
  settings.rule = request_->draft_rule();
  settings.leniency = request_->leniency;
  // Under coupled both draw with the same noise. Elsewhere a draft that knew it could shift the
  // text.
  settings.seed = request_->rule == acceptance::Rule::kCoupled
                      ? request_->seed
                      : random::DeriveDraftSeed(request_->seed);
  settings.sample_index = request_.sample_index();
  settings.prompt_tokens = request_->prompt_tokens();
  settings.max_length = request_->max_length();
  settings.priority = request_->priority;
  settings.cache_scope = request_->cache_scope;
  settings.max_nodes = request_->draft_nodes;
  open.needs_trees = request_->draft_nodes > 0 && !request_->auto_nodes;
  open.prefix = PrefixFrom(0);
  return open;
}

void DraftLink::Close() {
  if (state_ == State::kOff || state_ == State::kRefused || state_ == State::kClosed) return;
  session_->Close();
  timers_.Cancel(LoopTimer::kDraftReopen);
  state_ = State::kClosed;
}

std::optional<PlainCause> DraftLink::absent() const {
  switch (state_) {
    case State::kOff:
    case State::kClosed:
      return PlainCause::kOff;
    case State::kRefused:
      return PlainCause::kDraftRefused;
    case State::kDown:
      return down_cause_;
    case State::kOpening:
    case State::kReady:
    case State::kAsked:
      break;
  }
  return std::nullopt;
}

bool DraftLink::Ask(const Wanted& wanted, absl::Duration wanted_within, absl::Duration wait) {
  TANDEM_CHECK(state_ == State::kReady && wanted.max_draft_tokens > 0);
  DraftAdvance advance;
  advance.prefix = PrefixFrom(told_);
  const uint32_t tokens = static_cast<uint32_t>(advance.prefix.tokens.size());
  if (told_ + tokens < committed_.size()) return false;
  advance.round = ++round_;
  advance.outcome = std::exchange(outcome_, std::nullopt);
  advance.max_draft_tokens = wanted.max_draft_tokens;
  advance.max_nodes = wanted.max_nodes;
  if (limits_.ends_by_confidence) advance.min_confidence = wanted.min_confidence;
  if (limits_.prepares) advance.max_outcomes = wanted.max_outcomes;
  advance.wanted_within = wanted_within;
  told_ = committed_.size();
  const uint32_t fresh = round_ == 1 ? told_ : tokens;  // the draft may not have read any of it yet
  asked_at_ = clock_.Now();
  allowed_ = std::max(
      {options_.draft_silence * (1 + fresh / kSilenceTokens), usual_ * kSilenceFactor, 2 * wait});
  state_ = State::kAsked;
  advance.trace = observer_.OnProposing(wanted.max_draft_tokens, limits_.draft);
  session_->Advance(advance);
  return true;
}

void DraftLink::Submitted(const CandidateTree& block) {
  if (state_ != State::kReady) return;
  session_->Submitted(block.id, static_cast<uint32_t>(block.tokens.size()));
}

void DraftLink::TookPrepared() {
  TANDEM_CHECK(state_ == State::kReady);
  told_ = committed_.size();
  outcome_.reset();
}

void DraftLink::Decided(const BlockOutcome& outcome) {
  backoff_.Reset();
  if (state_ == State::kReady) outcome_ = outcome;
}

// Another draft takes its place at once; the back-off is for when all have failed.
void DraftLink::GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least) {
  at_least = std::min(at_least, options_.backoff_max);
  switch (session_->GiveUp(loss, at_least)) {
    case NextDraft::kNow:
      return Open();
    case NextDraft::kLater:
      state_ = State::kDown;
      down_cause_ = cause;
      timers_.Set(LoopTimer::kDraftReopen, std::max(backoff_.Next(), at_least));
      return;
    case NextDraft::kNever:
      state_ = State::kRefused;
      return;
  }
}

void DraftLink::GiveUpIfSilent() {
  const bool owes = state_ == State::kOpening || state_ == State::kAsked;
  if (owes && clock_.Now() - asked_at_ > allowed_) {
    GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
  }
}

bool DraftLink::OnOpened(base::DraftAttempt attempt, const DraftLimits& limits) {
  if (attempt != attempt_ || state_ != State::kOpening) return false;
  if (!std::exchange(switched_, false) && attempt_ > kFirstAttempt) ++reconnections_;
  state_ = State::kReady;
  limits_ = limits;
  was_opened_ = true;
  return true;
}

std::optional<absl::Duration> DraftLink::OnAnswer(base::DraftAttempt attempt, uint64_t round) {
  if (attempt != attempt_ || state_ != State::kAsked) return std::nullopt;
  if (round < round_) return std::nullopt;  // answered before
  state_ = State::kReady;
  const absl::Duration took = clock_.Now() - asked_at_;
  Average(usual_, took);
  return took;
}

std::optional<PlainCause> DraftLink::OnLost(base::DraftAttempt attempt, DraftLoss loss) {
  if (attempt != attempt_ || absent().has_value()) return std::nullopt;
  const PlainCause cause =
      loss == DraftLoss::kRefused ? PlainCause::kDraftRefused : PlainCause::kDraftLost;
  GiveUp(loss, cause);
  return cause;
}

void DraftLink::OnReopen() {
  if (state_ == State::kDown) Open();
}

PrefixDelta DraftLink::PrefixFrom(uint32_t keep) const {
  const uint32_t end =
      std::min<uint64_t>(committed_.size(), uint64_t{keep} + options_.max_prefix_tokens);
  return {keep, committed_.Slice(keep, end), committed_.HashOf(end)};
}

}  // namespace tandem::orchestrator
