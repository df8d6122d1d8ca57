#include "orchestrator/draft/drafting.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/random/random.h"

namespace tandem::orchestrator {
namespace {

constexpr double kMinPatience = 1.0 / 16;
constexpr double kSilenceFactor = 8;    // of the usual time
constexpr double kSilenceTokens = 256;  // of prefix to compute: worth another draft_silence

// `average` zero: there is none yet.
void Average(absl::Duration& average, absl::Duration measured) {
  constexpr double kWeight = 0.2;
  average =
      average == absl::ZeroDuration() ? measured : measured * kWeight + average * (1 - kWeight);
}

Drafted Without(PlainCause cause) { return {{}, cause}; }

}  // namespace

Drafting::Drafting(const GenerationRequest& request, const LoopOptions& options,
                   const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
                   const concurrency::Clock& clock)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      timers_(timers),
      clock_(clock),
      state_(session == nullptr || request.draft_tokens == 0u ? State::kOff : State::kClosed),
      backoff_(options.backoff_min, options.backoff_max, request.seed) {}

void Drafting::Open() {
  if (state_ == State::kOff || state_ == State::kRefused) return;
  state_ = State::kOpening;
  late_ = false;
  outcome_.reset();
  advance_round_ = 0;
  usual_ = absl::ZeroDuration();
  asked_at_ = clock_.Now();
  allowed_ = options_.draft_silence;
  DraftOpen open;
  open.attempt = ++attempt_;
  open.drafter = request_.drafter;
  open.proposal = request_.proposal;
  speculation::SequenceSettings& settings = open.settings;
  settings.sampling = request_.sampling;
  if (request_.draft_temperature.has_value()) {
    settings.sampling.temperature = *request_.draft_temperature;
  }
  // Greedy says that the draft's own temperature is 0, too. One that samples all the same has to send
  // its q; the target needs none to compare with its most likely token.
  const bool samples = request_.rule == acceptance::Rule::kGreedy && !settings.sampling.greedy();
  settings.rule = samples ? acceptance::Rule::kSpeculative : request_.rule;
  settings.leniency = request_.leniency;
  // Under coupled both draw with the same noise. Elsewhere a draft that knew it could shift the text.
  settings.seed = request_.rule == acceptance::Rule::kCoupled
                      ? request_.seed
                      : random::DeriveDraftSeed(request_.seed);
  settings.sample_index = request_.sample_index;
  settings.prompt_tokens = request_.prompt_tokens();
  settings.max_length = request_.max_length();
  settings.priority = request_.priority;
  open.prefix = PrefixFrom(0);
  told_ = static_cast<uint32_t>(open.prefix.tokens.size());
  session_->Open(open);
}

void Drafting::Close() {
  if (state_ == State::kOff || state_ == State::kRefused || state_ == State::kClosed) return;
  session_->Close();
  timers_.Cancel(LoopTimer::kDraftReopen);
  timers_.Cancel(LoopTimer::kDraftDeadline);
  state_ = State::kClosed;
  waiting_ = false;
}

std::optional<Drafted> Drafting::Ask(uint32_t max_draft_tokens, absl::Duration wait) {
  TANDEM_CHECK(max_draft_tokens > 0 && !waiting_);
  if (Silent()) GoDown(PlainCause::kDraftLost, absl::ZeroDuration());
  switch (state_) {
    case State::kOff:
    case State::kClosed:
      return Without(PlainCause::kOff);
    case State::kRefused:
      return Without(PlainCause::kDraftRefused);
    case State::kDown:
      return Without(down_cause_);
    case State::kAsked:
      return Without(PlainCause::kDraftLate);
    case State::kOpening:
      if (late_) return Without(PlainCause::kDraftLate);
      break;
    case State::kReady:
      break;
  }
  waiting_ = true;
  wanted_tokens_ = max_draft_tokens;
  wait *= patience_;
  deadline_ = clock_.Now() + wait;
  timers_.Set(LoopTimer::kDraftDeadline, wait);
  return state_ == State::kReady ? SendAdvance() : std::nullopt;
}

// The answer, when the draft's context has no room for a candidate where the target's has.
std::optional<Drafted> Drafting::SendAdvance() {
  uint32_t max = wanted_tokens_;
  if (limits_.max_draft_tokens > 0) max = std::min(max, limits_.max_draft_tokens);
  if (limits_.context_length > 0) {
    const uint32_t room =
        limits_.context_length - std::min(limits_.context_length, committed_.size());
    max = std::min(max, room);
  }
  PrefixDelta prefix = PrefixFrom(told_);
  if (max == 0 || told_ + prefix.tokens.size() < committed_.size()) {
    return Answer(Without(PlainCause::kPolicyZero));
  }
  DraftAdvance advance;
  advance.round = ++advance_round_;
  advance.prefix = std::move(prefix);
  advance.outcome = std::exchange(outcome_, std::nullopt);
  advance.max_draft_tokens = max;
  asked_at_ = clock_.Now();
  const absl::Duration left = deadline_ - asked_at_;
  advance.wanted_within = std::max(left - std::min(on_the_way_, left / 2), absl::Microseconds(1));
  asked_tokens_ = max;
  told_ = committed_.size();
  const uint32_t fresh = advance.round == 1 ? told_ : advance.prefix.tokens.size();
  allowed_ = std::max(
      {options_.draft_silence * (1 + fresh / kSilenceTokens), usual_ * kSilenceFactor, 2 * left});
  state_ = State::kAsked;
  session_->Advance(advance);
  return std::nullopt;
}

bool Drafting::Silent() const {
  return (state_ == State::kOpening || state_ == State::kAsked) &&
         clock_.Now() - asked_at_ > allowed_;
}

void Drafting::Submitted(const CandidateBlock& block) {
  if (state_ != State::kReady) return;
  session_->Submitted(block.id, static_cast<uint32_t>(block.tokens.size()));
}

void Drafting::Refused() {
  if (state_ == State::kReady) GoDown(PlainCause::kDraftInvalid, absl::ZeroDuration());
}

void Drafting::Decided(const BlockOutcome& outcome) {
  backoff_.Reset();
  if (state_ == State::kReady) outcome_ = outcome;
}

std::optional<Drafted> Drafting::OnOpened(uint64_t attempt, const DraftLimits& limits) {
  if (attempt != attempt_ || state_ != State::kOpening) return std::nullopt;
  if (attempt_ > 1) ++reconnections_;
  state_ = State::kReady;
  late_ = false;
  limits_ = limits;
  return waiting_ ? SendAdvance() : std::nullopt;
}

std::optional<Drafted> Drafting::OnBlock(uint64_t attempt, DraftReplyBlock reply) {
  if (attempt != attempt_ || state_ != State::kAsked) return std::nullopt;
  if (reply.round < advance_round_) return std::nullopt;  // answered before
  Measure(reply.at_draft);
  if (waiting_ && reply.status == DraftReplyBlock::Status::kOk) {
    patience_ = std::min(1.0, 2 * patience_);
  }
  state_ = State::kReady;
  late_ = false;
  const absl::Duration at_draft = reply.at_draft;
  Drafted drafted = Judge(std::move(reply));
  drafted.at_draft = at_draft;
  return Answer(std::move(drafted));
}

void Drafting::Measure(absl::Duration at_draft) {
  const absl::Duration measured = clock_.Now() - asked_at_;
  Average(usual_, measured);
  // Both ways, and whatever else the draft does not know of. It only ever shortens the time that the draft
  // is given, so what it says of itself need not be true.
  Average(on_the_way_, std::max(measured - at_draft, absl::ZeroDuration()));
}

Drafted Drafting::Judge(DraftReplyBlock reply) {
  using Status = DraftReplyBlock::Status;
  switch (reply.status) {
    case Status::kOk:
      break;
    case Status::kNeedPrefix:
      told_ = std::min(told_, reply.held);
      return Without(PlainCause::kDraftStale);
    case Status::kStale:
      told_ = 0;
      return Without(PlainCause::kDraftStale);
    case Status::kExpired:
      return Without(PlainCause::kDraftLate);
    case Status::kNoSlot:
      GoDown(PlainCause::kDraftLost, reply.retry_after);
      return Without(PlainCause::kDraftLost);
    case Status::kRefused:
      Refuse();
      return Without(PlainCause::kDraftRefused);
    case Status::kGone:
      GoDown(PlainCause::kDraftLost, absl::ZeroDuration());
      return Without(PlainCause::kDraftLost);
  }
  CandidateBlock& block = reply.block;
  const bool good = reply.round == advance_round_ && reply.is_chain &&
                    block.tokens.size() <= asked_tokens_ &&
                    (block.tokens.empty() || block.id != 0) &&
                    (block.q.empty() || block.q.size() == block.tokens.size());
  if (!good) {
    GoDown(PlainCause::kDraftInvalid, absl::ZeroDuration());
    return Without(PlainCause::kDraftInvalid);
  }
  if (block.tokens.empty()) return Without(PlainCause::kDraftEmpty);
  // A q that is none is checked as one-hot by the target, token by token. One that is too large for
  // the wire is emptied here, which is the same. What the tokens are plays no part: an id that the
  // target does not know stays in the block and has p = 0.
  for (sampling::SparseDistribution& q : block.q) {
    if (q.ids.size() != q.weights.size() || q.ids.size() > sampling::kMaxSparseEntries) q = {};
  }
  return {std::move(block), std::nullopt};
}

std::optional<Drafted> Drafting::OnLost(uint64_t attempt, DraftLoss loss) {
  if (attempt != attempt_) return std::nullopt;
  if (state_ != State::kOpening && state_ != State::kReady && state_ != State::kAsked) {
    return std::nullopt;
  }
  if (loss == DraftLoss::kRefused) {
    Refuse();
    return Answer(Without(PlainCause::kDraftRefused));
  }
  GoDown(PlainCause::kDraftLost, absl::ZeroDuration());
  return Answer(Without(PlainCause::kDraftLost));
}

std::optional<Drafted> Drafting::OnDeadline() {
  if (!waiting_) return std::nullopt;
  late_ = true;
  patience_ = std::max(patience_ / 2, kMinPatience);
  return Answer(Without(PlainCause::kDraftLate));
}

void Drafting::OnReopen() {
  if (state_ == State::kDown) Open();
}

void Drafting::GoDown(PlainCause cause, absl::Duration at_least) {
  at_least = std::min(at_least, options_.backoff_max);
  GiveUp(DraftLoss::kLost, cause, at_least);
}

void Drafting::Refuse() {
  GiveUp(DraftLoss::kRefused, PlainCause::kDraftRefused, absl::ZeroDuration());
}

// Another draft takes its place at once; the back-off is for when all have failed.
void Drafting::GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least) {
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

std::optional<Drafted> Drafting::Answer(Drafted drafted) {
  if (!std::exchange(waiting_, false)) return std::nullopt;
  timers_.Cancel(LoopTimer::kDraftDeadline);
  return drafted;
}

PrefixDelta Drafting::PrefixFrom(uint32_t keep) const {
  const uint32_t end =
      std::min<uint64_t>(committed_.size(), uint64_t{keep} + options_.max_prefix_tokens);
  absl::Span<const uint32_t> tokens = committed_.all().subspan(keep, end - keep);
  return {keep, {tokens.begin(), tokens.end()}, committed_.HashOf(end)};
}

}  // namespace tandem::orchestrator
