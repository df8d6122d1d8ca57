#include "orchestrator/trace/round_trace.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/telemetry/attributes.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/trace/server_address.h"

namespace tandem::orchestrator {
namespace {

using telemetry::SpanKind;

// How a wait for a block ended; as the wire's statuses are written.
absl::string_view ProposeStatus(std::optional<PlainCause> cause) {
  if (!cause.has_value()) return "OK";
  switch (*cause) {
    case PlainCause::kDraftLate:
      return "LATE";
    case PlainCause::kDraftLost:
      return "LOST";
    case PlainCause::kDraftRefused:
      return "REFUSED";
    case PlainCause::kDraftInvalid:
      return "INVALID";
    case PlainCause::kDraftStale:
      return "STALE";
    case PlainCause::kDraftEmpty:
      return "EMPTY";
    case PlainCause::kPolicyZero:  // it opened, and its context has no room
    case PlainCause::kFirstRound:  // this one and the next ask for none
    case PlainCause::kOff:
      break;
  }
  return "NOT_ASKED";
}

absl::string_view LeftStatus(LeaveCause cause) {
  switch (cause) {
    case LeaveCause::kLost:
      return "LOST";
    case LeaveCause::kFault:
      return "FAULT";
    case LeaveCause::kDraining:
      return "DRAINING";
    case LeaveCause::kNoSlot:
      return "NO_SLOT";
  }
  return "LEFT";
}

// A message of the stream that `method` is.
void SetCall(absl::string_view method, absl::string_view peer, telemetry::Span& span) {
  span.Set(telemetry::kRpcSystem, telemetry::kGrpc);
  span.Set(telemetry::kRpcMethod, method);
  SetServer(peer, span);
}

void SetChoice(const LengthChoice& choice, telemetry::Span& span) {
  span.Set(telemetry::kLengthChosen, int64_t{choice.tokens});
  if (choice.nodes > 0) span.Set(telemetry::kLengthNodes, int64_t{choice.nodes});
  if (choice.zero.has_value()) span.Set(telemetry::kLengthZero, Name(*choice.zero));
  if (choice.estimates.alpha.has_value())
    span.Set(telemetry::kLengthAlpha, *choice.estimates.alpha);
  if (choice.estimates.draft_token.has_value()) {
    span.Set(telemetry::kLengthDraftToken, *choice.estimates.draft_token);
  }
  if (choice.estimates.min_confidence.has_value()) {
    span.Set(telemetry::kLengthMinConfidence, *choice.estimates.min_confidence);
  }
}

}  // namespace

RoundTrace::RoundTrace(telemetry::Tracer& tracer, const telemetry::SpanContext& request,
                       acceptance::Rule rule, uint32_t sample_index)
    : tracer_(tracer), request_(request), rule_(rule), sample_index_(sample_index) {}

RoundTrace::~RoundTrace() = default;

RoundTrace::OwnedSpan RoundTrace::Under(const OwnedSpan& parent, absl::string_view name,
                                        SpanKind kind, concurrency::Instant at) {
  if (parent == nullptr) return nullptr;
  return tracer_.Start({name, kind, at, parent->context(), {}});
}

// ---- the round ----

void RoundTrace::OnRoundBegun(concurrency::Instant at, uint32_t committed) {
  began_ = at;
  round_ = tracer_.Start({telemetry::kRoundSpan, SpanKind::kInternal, at, request_, {}});
  if (round_ == nullptr) return;
  round_->Set(telemetry::kSampleIndex, int64_t{sample_index_});
  round_->Set(telemetry::kRound, int64_t{rounds_++});
  round_->Set(telemetry::kRule, acceptance::Name(rule_));
  round_->Set(telemetry::kCommitted, int64_t{committed});
}

void RoundTrace::OnDecided(const RoundRecord& record) {
  if (round_ == nullptr) return;
  telemetry::Span& span = *round_;
  span.Set(telemetry::kDrafted, int64_t{record.draft_tokens});
  span.Set(telemetry::kAccepted, int64_t{record.accepted_tokens});
  if (record.tree) {
    span.Set(telemetry::kDraftDepth, int64_t{record.draft_depth});
    span.Set(telemetry::kNode, int64_t{record.node});
  }
  span.Set(telemetry::kTokens, int64_t{record.tokens});
  if (record.cause.has_value()) span.Set(telemetry::kCause, Name(*record.cause));
  if (record.choice.has_value()) SetChoice(*record.choice, span);
  if (record.drafter.has_value()) {
    span.Set(telemetry::kDrafter, record.drafter->name);
    span.Set(telemetry::kDrafterReason, Name(record.drafter->reason));
  }
  if (record.prepared != PreparedUse::kNone) span.Set(telemetry::kPrepared, Name(record.prepared));
  span.Set(telemetry::kStageDraft, record.stages.draft);
  span.Set(telemetry::kStageNetwork, record.stages.network);
  span.Set(telemetry::kStageSlot, record.stages.slot);
  span.Set(telemetry::kStageQueue, record.stages.queue);
  span.Set(telemetry::kStageDevice, record.stages.device);
  span.Set(telemetry::kStageOwn, record.stages.own);
  span.Set(telemetry::kPassId, static_cast<int64_t>(record.pass_id));
  span.Set(telemetry::kPassRows, int64_t{record.pass_rows});
  span.Set(telemetry::kPassSequences, int64_t{record.pass_sequences});
  span.Set(telemetry::kPrefill, record.prefill);
  span.End(record.decided);
  round_.reset();
}

// Called in mid-round if the sample failed or was cancelled.
void RoundTrace::OnEnded(concurrency::Instant at, const Ending& ending) {
  if (propose_ != nullptr) {
    propose_->Set(telemetry::kStatus, "ENDED");
    propose_->End(at);
    propose_.reset();
  }
  EndVerify(at, "ENDED");
  if (round_ == nullptr) return;
  if (!ending.status.ok()) {
    const std::string code = absl::StatusCodeToString(ending.status.code());
    round_->Fail(code, code);
  }
  round_->End(at);
  round_.reset();
}

// ---- the draft ----

// The span may exist already: if the draft is open, the Advance goes out while the draft is asked.
void RoundTrace::OnDraftAwaited(concurrency::Instant /*at*/) {
  if (propose_ != nullptr) return;
  propose_ = Under(round_, telemetry::kProposeSpan, SpanKind::kClient, began_);
}

std::optional<telemetry::SpanContext> RoundTrace::OnProposing(uint32_t max_draft_tokens,
                                                              absl::string_view draft) {
  OnDraftAwaited(began_);
  if (propose_ == nullptr) return std::nullopt;
  propose_->Set(telemetry::kMaxTokens, int64_t{max_draft_tokens});
  SetCall(telemetry::kProposeMethod, draft, *propose_);
  return propose_->context();
}

// Called again in a round whose block the target refused.
void RoundTrace::OnDrafted(concurrency::Instant at, uint32_t candidates,
                           std::optional<PlainCause> cause) {
  EndVerify(at, "INVALID");
  if (propose_ == nullptr) return;
  propose_->Set(telemetry::kDrafted, int64_t{candidates});
  propose_->Set(telemetry::kStatus, ProposeStatus(cause));
  propose_->End(at);
  propose_.reset();
}

// ---- the target ----

std::optional<telemetry::SpanContext> RoundTrace::OnSubmitted(concurrency::Instant at,
                                                              uint32_t rows,
                                                              absl::string_view target) {
  TANDEM_CHECK(verify_ == nullptr) << "two unanswered Steps";
  verify_ = Under(round_, telemetry::kVerifySpan, SpanKind::kClient, at);
  if (verify_ == nullptr) return std::nullopt;
  verify_->Set(telemetry::kRows, int64_t{rows});
  SetCall(telemetry::kVerifyMethod, target, *verify_);
  return verify_->context();
}

void RoundTrace::OnVerified(concurrency::Instant at, const VerifyReply& reply) {
  if (verify_ == nullptr) return;
  verify_->Set(telemetry::kQueued, reply.queued);
  verify_->Set(telemetry::kComputed, reply.computed);
  verify_->Set(telemetry::kPassId, static_cast<int64_t>(reply.pass_id));
  verify_->Set(telemetry::kPassRows, int64_t{reply.pass_rows});
  verify_->Set(telemetry::kPassSequences, int64_t{reply.pass_sequences});
  EndVerify(at, "OK");
}

// Called before OnReplay, and with more detail. Not called if the same target is asked again.
void RoundTrace::OnTargetLeft(concurrency::Instant at, LeaveCause cause) {
  if (verify_ == nullptr) return;
  const bool failed = cause == LeaveCause::kLost || cause == LeaveCause::kFault;
  if (failed) verify_->Fail(LeftStatus(cause), LeftStatus(cause));
  EndVerify(at, LeftStatus(cause));
}

// The reason stays out: a target's words may name tokens.
void RoundTrace::OnReplay(concurrency::Instant at, absl::string_view /*reason*/) {
  EndVerify(at, "NEED_PREFIX");
  if (round_ != nullptr) round_->Event(telemetry::kReplayEvent, at);
}

void RoundTrace::EndVerify(concurrency::Instant at, absl::string_view status) {
  if (verify_ == nullptr) return;
  verify_->Set(telemetry::kStatus, status);
  verify_->End(at);
  verify_.reset();
}

}  // namespace tandem::orchestrator
