#include "orchestrator/verify/verify_wire.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/messages/logprobs.h"
#include "common/messages/trace_context.h"
#include "common/speculation/candidate_tree_codec.h"
#include "common/speculation/sequence_options.h"

namespace tandem::orchestrator {
namespace {

VerifyReply::Status StatusFromWire(internal::v1::Status status) {
  switch (status) {
    case internal::v1::STATUS_OK:
      return VerifyReply::Status::kOk;
    case internal::v1::STATUS_NEED_PREFIX:
      return VerifyReply::Status::kNeedPrefix;
    case internal::v1::STATUS_STALE:
      return VerifyReply::Status::kStale;
    case internal::v1::STATUS_INVALID:
      return VerifyReply::Status::kInvalid;
    case internal::v1::STATUS_NO_SLOT:
      return VerifyReply::Status::kNoSlot;
    case internal::v1::STATUS_EXPIRED:
      return VerifyReply::Status::kExpired;
    case internal::v1::STATUS_DRAINING:
      return VerifyReply::Status::kDraining;
    case internal::v1::STATUS_CLOSED:
      return VerifyReply::Status::kClosed;
    default:
      return VerifyReply::Status::kInternal;
  }
}

}  // namespace

internal::v1::Step ToWire(base::SequenceId sequence, VerifyStep step) {
  internal::v1::Step wire;
  wire.set_sequence(base::Number(sequence));
  wire.set_round(step.round);
  for (const ChainedBlock& chained : step.chained) {
    internal::v1::PreparedBlock& sent = *wire.add_prepared();
    sent.set_node(chained.node);
    sent.set_next_token(chained.next_token);
    sent.mutable_candidates()->Add(chained.block.tokens.begin(), chained.block.tokens.end());
  }
  wire.set_after(step.after);
  if (step.setup.has_value()) *wire.mutable_options() = speculation::ToWire(*step.setup);
  if (step.chained.empty()) *wire.mutable_prefix() = speculation::ToWire(step.prefix);
  wire.set_more(step.more);
  wire.set_prompt_logprobs(step.prompt_logprobs);
  speculation::ToWire(step.block, wire);
  if (step.remaining != absl::InfiniteDuration()) {
    wire.set_remaining_us(std::max<int64_t>(1, absl::ToInt64Microseconds(step.remaining)));
  }
  if (step.trace.has_value()) *wire.mutable_trace() = messages::ToWire(*step.trace);
  return wire;
}

uint32_t MaxSequenceLength(const v1::Limits& limits) {
  return limits.max_length() > 0 ? limits.max_length() : limits.context_length();
}

VerifyReply FromWire(const internal::v1::Verdict& verdict) {
  VerifyReply reply;
  reply.round = verdict.round();
  reply.status = StatusFromWire(verdict.status());
  if (reply.status != VerifyReply::Status::kOk) {
    const internal::v1::Problem& problem = verdict.problem();
    reply.field = problem.field();
    reply.message = absl::StrCat(internal::v1::Status_Name(verdict.status()),
                                 problem.field().empty() ? "" : " ", problem.field(),
                                 problem.message().empty() ? "" : ": ", problem.message());
    reply.held = problem.held();
    reply.retry_after = absl::Microseconds(problem.retry_after_us());
  }
  reply.entries.reserve(verdict.entries_size());
  for (const internal::v1::Entry& entry : verdict.entries()) {
    acceptance::Entry& ours = reply.entries.emplace_back();
    ours.accept_probability = entry.accept_probability();
    if (entry.has_next_token()) ours.next_token = entry.next_token();
    if (entry.has_logprobs()) {
      reply.logprobs.resize(reply.entries.size());
      reply.logprobs.back() = messages::FromWire(entry.logprobs());
    }
  }
  reply.prompt_logprobs.reserve(verdict.prompt_logprobs_size());
  for (const internal::v1::NodeLogprobs& node : verdict.prompt_logprobs()) {
    reply.prompt_logprobs.push_back(messages::FromWire(node));
  }
  reply.one_hot_candidates = verdict.one_hot_candidates();
  reply.cached_tokens = verdict.cached_tokens();
  reply.queued = absl::Microseconds(verdict.queued_us());
  reply.computed = absl::Microseconds(verdict.computed_us());
  reply.prefill = std::min(absl::Microseconds(verdict.prefill_us()), reply.queued + reply.computed);
  reply.pass_id = verdict.pass_id();
  reply.pass_rows = verdict.pass_rows();
  reply.pass_sequences = verdict.pass_sequences();
  return reply;
}

}  // namespace tandem::orchestrator
