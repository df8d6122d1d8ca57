#include "orchestrator/loop/speculation_loop.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "orchestrator/accept/verdict_logprobs.h"
#include "orchestrator/request/without_content.h"

namespace tandem::orchestrator {

// ---- the loop ----

void SpeculationLoop::BeginRound() {
  if (parts_.stream->behind()) return Pause();
  const concurrency::Instant now = parts_.clock->Now();
  round_ = {};
  round_.number = rounds_begun_++;
  round_.committed = committed_.size();
  round_.began = now;
  parts_.observer->OnRoundBegun(now, round_.committed);
  if (round_.number == 0) return Verify({{}, PlainCause::kFirstRound}, now);
  if (parts_.draft == nullptr || request_->draft_tokens == 0u) {
    return Verify({{}, PlainCause::kOff}, now);
  }
  const uint32_t wanted = CandidatesWanted();
  if (wanted == 0) return Verify({{}, PlainCause::kPolicyZero}, now);
  state_ = State::kDrafting;
  stage_began_ = now;
  drafting_.EnsureOpen();
  std::optional<Drafted> at_once = drafting_.Ask(BlockWanted(wanted), DraftWait());
  drafting_.Record(round_);
  if (at_once.has_value()) {
    return Verify(*std::move(at_once), now);  // nothing was waited for
  }
  parts_.observer->OnDraftAwaited(now);
}

void SpeculationLoop::EndDrafting(std::optional<Drafted> drafted) {
  if (!drafted.has_value()) return;  // waits on
  TANDEM_CHECK(state_ == State::kDrafting);
  const concurrency::Instant now = parts_.clock->Now();
  const absl::Duration waited = now - stage_began_;
  times_.draft += waited;
  // The draft's own report of its part of the wait, and never more than the wait.
  const absl::Duration at_draft =
      std::clamp(drafted->at_draft.value_or(waited), absl::ZeroDuration(), waited);
  round_.stages.draft += at_draft;
  round_.draft_queue = std::clamp(drafted->queued, absl::ZeroDuration(), at_draft);
  round_.stages.network += waited - at_draft;
  Verify(*std::move(drafted), now);
}

void SpeculationLoop::Verify(Drafted drafted, concurrency::Instant now) {
  state_ = State::kVerifying;
  stage_began_ = now;
  if (round_.prepared == PreparedUse::kHit) {  // of this draft: ids begin anew with another one
    if (const CandidateTree* chained = verification_.Chained(drafted.block.id)) {
      drafted.block = *chained;
      round_.prepared = PreparedUse::kChained;
    }
  }
  round_.cause = drafted.cause;
  parts_.observer->OnDrafted(now, static_cast<uint32_t>(drafted.block.tokens.size()),
                             drafted.cause);
  if (!round_.cause.has_value()) drafting_.Submitted(drafted.block);
  EndVerification(verification_.Begin(std::move(drafted.block)));
}

void SpeculationLoop::EndVerification(std::optional<Verified> verified) {
  if (!verified.has_value() || state_ == State::kEnded) return;
  if (verified->kind == Verified::Kind::kFailed) return End(std::move(verified->status));
  TANDEM_CHECK(state_ == State::kVerifying);
  const concurrency::Instant now = parts_.clock->Now();
  times_.verify += now - std::exchange(stage_began_, now);
  round_.stages += verification_.TakeSpent();
  if (verified->kind == Verified::Kind::kBlockRefused) {
    if (!std::exchange(refusal_logged_, true)) {
      TANDEM_LOG(kWarning) << base::LogFields("block_refused")
                                  .Add("id", request_->id)
                                  .Add("message", WithoutContent(verified->status.message()));
    }
    drafting_.Refused();
    return Verify({{}, PlainCause::kDraftInvalid}, now);
  }
  Accept(std::move(verified->reply));
}

void SpeculationLoop::Accept(VerifyReply reply) {
  const CandidateTree& block = verification_.block();
  absl::StatusOr<acceptance::Decision> decision =
      acceptor_.Decide(committed_.size(), block, reply, verification_.vocabulary_size());
  if (!decision.ok()) {
    stage_began_ = parts_.clock->Now();
    return EndVerification(verification_.Repeat(decision.status().message()));
  }
  verification_.Accepted(decision->last_node(), decision->next_token);
  if (block.empty() && !round_.cause.has_value()) round_.cause = PlainCause::kPolicyZero;  // cut
  times_.target += reply.computed;
  times_.queue += reply.queued;
  const bool one_hot = !block.q.empty() && reply.one_hot_candidates > 0;
  acceptor_.Record(block, *decision, round_.cause, one_hot,
                   {reply.pass_rows, reply.pass_sequences});
  if (round_.choice.has_value()) acceptor_.RecordChoice(*round_.choice);
  acceptor_.RecordPrepared(round_.prepared);
  round_.draft_tokens = static_cast<uint32_t>(block.size());
  round_.draft_depth = block.depth();
  round_.accepted_tokens = decision->accepted;
  round_.node = decision->last_node();
  round_.tree = !block.parents.empty();
  round_.rejected = decision->rejected;
  round_.pass_id = reply.pass_id;
  round_.pass_rows = reply.pass_rows;
  round_.pass_sequences = reply.pass_sequences;
  round_.prefill = reply.prefill;
  if (!round_.cause.has_value()) {
    drafting_.Decided({block.id, decision->last_node(), decision->next_token});
  }
  Commit(*decision, std::move(reply));
}

void SpeculationLoop::Commit(const acceptance::Decision& decision, VerifyReply reply) {
  const std::vector<uint32_t>& candidates = verification_.block().tokens;
  std::vector<uint32_t> tokens;
  tokens.reserve(decision.accepted + size_t{1});
  for (uint32_t i = 0; i < decision.accepted; ++i) {
    tokens.push_back(candidates[decision.node(i) - 1]);
  }
  tokens.push_back(decision.next_token);
  if (times_.first_token == absl::ZeroDuration()) {
    times_.first_token = parts_.clock->Now() - arrived_;
  }
  std::vector<TokenLogprobs> of_tokens;
  if (request_->logprobs.has_value()) {
    of_tokens = CommittedLogprobs(decision, std::move(reply.logprobs));
  }
  absl::StatusOr<TokenStream::Appended> appended =
      parts_.stream->Append(tokens, std::move(of_tokens), decision.accepted);
  if (!appended.ok()) return End(appended.status());
  tokens.resize(appended->used);
  for (uint32_t token : tokens) committed_.Append(token);
  round_.tokens = appended->used;
  if (round_.drafter.has_value()) acceptor_.RecordDrafter(round_);
  RoundIsOver();
  if (appended->finish.has_value()) return End(absl::OkStatus(), *appended->finish);
  BeginRound();
}

// Time that belongs to no other stage was the orchestrator's own.
void SpeculationLoop::RoundIsOver() {
  round_.decided = parts_.clock->Now();
  round_.stages.own = round_.decided - round_.began - round_.stages.total();
  times_.stages += round_.stages;
  plan_.Observe(round_);
  parts_.observer->OnDecided(round_);
}

// The target gives the last token of the text anyway, so draft tokens for it would be wasted.
// max_tokens fits the context, so this limits them to the context, too.
uint32_t SpeculationLoop::CandidatesWanted() {
  const uint32_t room = TokensLeft() - 1;
  const auto pass_time = [this](uint32_t rows) { return verification_.PassTime(rows); };
  const uint32_t outcomes = drafting_.prepares() || !drafting_.is_known() ? request_->prepare : 0;
  const LengthInputs inputs{
      .pass_time = pass_time,
      .decoding = verification_.Decoding(),
      .max_draft_tokens = std::min(kMaxDraftTokens, verification_.max_draft_tokens()),
      .max_nodes =
          request_->auto_nodes && outcomes == 0
              ? std::min({request_->draft_nodes, verification_.max_nodes(), drafting_.max_nodes()})
              : 0,
      .ends_by_confidence = drafting_.ends_by_confidence() && outcomes == 0,
      .max_outcomes = outcomes,
      .target_chains = verification_.chains(),
      .draft_is_known = drafting_.is_known()};
  DraftPlan::Choice choice = plan_.Next(inputs, TokensLeft());
  round_.drafter = choice.drafter;
  round_.choice = choice.length;
  drafting_.Use(plan_.drafter());
  round_.asked_tokens =
      std::min({round_.choice->tokens, kMaxDraftTokens, verification_.max_draft_tokens(), room});
  return round_.asked_tokens;
}

uint32_t SpeculationLoop::TokensLeft() const {
  return request_->max_tokens - parts_.stream->output_tokens();
}

DraftLink::Wanted SpeculationLoop::BlockWanted(uint32_t max_draft_tokens) const {
  const uint32_t nodes = request_->auto_nodes ? round_.choice->nodes : request_->draft_nodes;
  return {.max_draft_tokens = max_draft_tokens,
          .max_nodes = std::min(nodes, verification_.max_nodes()),
          .min_confidence = request_->draft_min_confidence.value_or(round_.choice->min_confidence),
          .max_outcomes = round_.choice->outcomes.value_or(request_->prepare)};
}

absl::Duration SpeculationLoop::DraftWait() const {
  const absl::Duration round = verification_.RoundTime();
  if (round == absl::ZeroDuration()) return options_.draft_wait;
  return std::min(options_.draft_wait, std::max(options_.draft_wait_floor, 4 * round));
}

// ---- the reader, the end ----

void SpeculationLoop::Pause() {
  state_ = State::kPaused;
  SetReaderTimer();
  if (verification_.OfferSlot()) Park();
  if (parts_.on_paused) parts_.on_paused(true);
}

void SpeculationLoop::SetReaderTimer() {
  paused_ = parts_.clock->Now();
  parts_.timers->Set(LoopTimer::kReader, std::min(options_.close_after, options_.abort_after));
}

// A text that is held back waits for another sample, not for its reader. So it gives its place at
// the peers back, and has no end to its wait.
void SpeculationLoop::Park() {
  state_ = State::kParked;
  drafting_.Close();
  verification_.Close();
  if (parts_.stream->held_back()) return parts_.timers->Cancel(LoopTimer::kReader);
  parts_.timers->Set(LoopTimer::kReader, paused_ + options_.abort_after - parts_.clock->Now());
}

void SpeculationLoop::OnReaderTimer() {
  if (state_ == State::kPaused && options_.close_after < options_.abort_after) {
    Park();
  } else if (parts_.stream->held_back()) {
    SetReaderTimer();
  } else if (state_ == State::kPaused || state_ == State::kParked) {
    End(absl::AbortedError(absl::StrCat(
        "the client did not read for ", absl::FormatDuration(options_.abort_after), ": ",
        parts_.stream->undelivered_tokens(), " tokens of this text are undelivered, and ",
        parts_.stream->unread_bytes(), " bytes of the call")));
  }
}

void SpeculationLoop::End(absl::Status status, Finish finish) {
  const concurrency::Instant now = parts_.clock->Now();
  if (state_ == State::kVerifying && !status.ok()) times_.verify += now - stage_began_;
  if (state_ != State::kNew) lengths_.Ended();
  state_ = State::kEnded;
  for (int i = 0; i < kLoopTimers; ++i) parts_.timers->Cancel(static_cast<LoopTimer>(i));
  Ending ending;
  ending.counts = acceptor_.counts();
  ending.counts.draft_reconnections = drafting_.reconnections();
  ending.counts.target_replays = verification_.replays();
  ending.counts.cached_tokens = verification_.cached_tokens();
  drafting_.Close();
  verification_.Close();
  times_.slot = verification_.slot_time();
  ending.status = std::move(status);
  ending.finish = finish;
  ending.stop_string = parts_.stream->stop_string();
  ending.output_tokens = parts_.stream->output_tokens();
  times_.total = now - arrived_;
  ending.times = times_;
  parts_.observer->OnEnded(now, ending);
  ended_(std::move(ending));
}

namespace {

CommittedTokens PromptAndOutput(const SampleRequest& request) {
  CommittedTokens tokens(request.prompt());
  for (uint32_t token : request->output_prefix) tokens.Append(token);
  return tokens;
}

}  // namespace

SpeculationLoop::SpeculationLoop(SampleRequest request, const LoopOptions& options, LoopParts parts,
                                 concurrency::Instant arrived, std::function<void(Ending)> ended)
    : request_(std::move(request)),
      options_(options),
      parts_(std::move(parts)),
      arrived_(arrived),
      ended_(std::move(ended)),
      committed_(PromptAndOutput(request_)),
      own_lengths_(parts_.lengths == nullptr ? std::make_unique<CommonLength>() : nullptr),
      lengths_(parts_.lengths == nullptr ? *own_lengths_ : *parts_.lengths),
      own_drafters_(parts_.drafters == nullptr ? std::make_unique<CommonDrafters>() : nullptr),
      plan_(*request_, lengths_, parts_.drafters == nullptr ? *own_drafters_ : *parts_.drafters),
      drafting_(request_, options_, committed_, parts_.draft, *parts_.timers, *parts_.clock,
                *parts_.observer),
      verification_(request_, options_, committed_, *parts_.verify, *parts_.timers, *parts_.clock,
                    *parts_.observer),
      acceptor_(request_, parts_.decide) {
  TANDEM_CHECK(!request_->prompt.empty());
  TANDEM_CHECK(request_->output_prefix.size() < request_->max_tokens);
}

// A loop that did not end counts no more, either.
SpeculationLoop::~SpeculationLoop() {
  if (state_ != State::kNew && state_ != State::kEnded) lengths_.Ended();
}

// ---- events: each goes to the part that waits for it, and what comes of it back to the loop ----

// Adds the time of an event's handler. Handlers are not nested, so nothing counts twice.
class SpeculationLoop::CpuTime {
 public:
  explicit CpuTime(SpeculationLoop& loop) : loop_(loop), began_(Now()) {}
  ~CpuTime() { loop_.times_.cpu += Now() - began_; }

 private:
  concurrency::Instant Now() const {
    const LoopParts& parts = loop_.parts_;
    return (parts.cpu_clock != nullptr ? parts.cpu_clock : parts.clock)->Now();
  }

  SpeculationLoop& loop_;
  const concurrency::Instant began_;
};

void SpeculationLoop::Start() {
  TANDEM_CHECK(state_ == State::kNew);
  CpuTime cpu(*this);
  if (request_->deadline != concurrency::Instant::InfiniteFuture()) {
    parts_.timers->Set(LoopTimer::kRequestDeadline, request_->deadline - parts_.clock->Now());
  }
  lengths_.Began();
  const bool wants_draft = plan_.Begin(TokensLeft());
  drafting_.Use(plan_.drafter());
  if (wants_draft) drafting_.Open();  // reads the prompt while the target does
  BeginRound();
}

void SpeculationLoop::OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  EndDrafting(drafting_.OnOpened(attempt, limits));
}

void SpeculationLoop::OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  EndDrafting(drafting_.OnBlock(attempt, std::move(block)));
}

void SpeculationLoop::OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  drafting_.OnPrepared(attempt, std::move(prepared));
  if (state_ == State::kVerifying && request_->prepare > 0) {
    verification_.Chain(drafting_.prepared());
  }
}

void SpeculationLoop::OnDraftLost(base::DraftAttempt attempt, DraftLoss loss,
                                  std::string /*reason*/) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  EndDrafting(drafting_.OnLost(attempt, loss));
}

void SpeculationLoop::OnVerifyReady() {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  EndVerification(verification_.OnReady());
}

void SpeculationLoop::OnSlotWanted() {
  if (state_ != State::kPaused) return;
  CpuTime cpu(*this);
  Park();
}

void SpeculationLoop::OnVerifyLost(base::Incarnation incarnation, std::string reason) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  EndVerification(verification_.OnLost(incarnation, reason));
}

void SpeculationLoop::OnVerdict(base::Incarnation incarnation, VerifyReply reply) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  std::optional<Verified> verified = verification_.OnVerdict(incarnation, std::move(reply));
  if (std::optional<PromptLogprobs> prompt = verification_.TakePromptLogprobs()) {
    parts_.stream->SendPrompt(*std::move(prompt));
  }
  EndVerification(std::move(verified));
}

void SpeculationLoop::OnTimer(LoopTimer timer) {
  if (state_ == State::kEnded) return;
  CpuTime cpu(*this);
  switch (timer) {
    case LoopTimer::kDraftDeadline:
      return EndDrafting(drafting_.OnDeadline());
    case LoopTimer::kDraftReopen:
      return drafting_.OnReopen();
    case LoopTimer::kWatchdog:
      return EndVerification(verification_.OnWatchdog());
    case LoopTimer::kRetry:
      return EndVerification(verification_.OnRetry());
    case LoopTimer::kTargetPatience:
      return EndVerification(verification_.OnPatience());
    case LoopTimer::kReader:
      return OnReaderTimer();
    case LoopTimer::kRequestDeadline:
      return End(verification_.DeadlineStatus());
  }
}

// The reader's time begins now.
void SpeculationLoop::OnReleased() {
  if (state_ != State::kPaused && state_ != State::kParked) return;
  if (state_ == State::kPaused) {
    SetReaderTimer();
  } else {
    parts_.timers->Set(LoopTimer::kReader, options_.abort_after);
  }
  OnDrained();
}

void SpeculationLoop::OnDrained() {
  if (state_ != State::kPaused && state_ != State::kParked) return;
  if (parts_.stream->held_back() || !parts_.stream->caught_up()) return;
  CpuTime cpu(*this);
  parts_.timers->Cancel(LoopTimer::kReader);
  if (parts_.on_paused) parts_.on_paused(false);
  if (state_ == State::kParked && plan_.WantsDraft()) drafting_.Open();
  BeginRound();
}

void SpeculationLoop::OnCancel(absl::Status status) {
  TANDEM_CHECK(!status.ok());
  if (state_ == State::kEnded) return;
  End(std::move(status));
}

}  // namespace tandem::orchestrator
