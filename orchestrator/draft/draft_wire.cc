#include "orchestrator/draft/draft_wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/messages/trace_context.h"
#include "common/speculation/candidate_tree_codec.h"
#include "common/speculation/proposal_codec.h"
#include "common/speculation/sequence_options.h"

namespace tandem::orchestrator {
namespace {

DraftReplyBlock::Status BlockStatusFromWire(internal::v1::Status status) {
  switch (status) {
    case internal::v1::STATUS_OK:
      return DraftReplyBlock::Status::kOk;
    case internal::v1::STATUS_NEED_PREFIX:
      return DraftReplyBlock::Status::kNeedPrefix;
    case internal::v1::STATUS_STALE:
      return DraftReplyBlock::Status::kStale;
    case internal::v1::STATUS_INVALID:
      return DraftReplyBlock::Status::kRefused;
    case internal::v1::STATUS_NO_SLOT:
      return DraftReplyBlock::Status::kNoSlot;
    case internal::v1::STATUS_EXPIRED:
      return DraftReplyBlock::Status::kExpired;
    default:
      return DraftReplyBlock::Status::kGone;
  }
}

// Says what the block is if it is not a whole chain on the committed tokens.
std::string Unserved(const internal::v1::Block& block) {
  if (block.has_assumes()) return "a block drafted in advance";
  if (!block.final()) return "a part of a block";
  return absl::StrCat("a tree of ", block.parents_size(), " draft tokens");
}

}  // namespace

internal::v1::Open ToWire(base::SequenceId sequence, const DraftOpen& open) {
  internal::v1::Open wire;
  wire.set_sequence(base::Number(sequence));
  *wire.mutable_options() = speculation::ToWire(open.settings);
  wire.set_drafter(open.drafter);
  wire.set_proposal(speculation::ToWire(open.proposal));
  *wire.mutable_prefix() = speculation::ToWire(open.prefix);
  return wire;
}

internal::v1::Advance ToWire(base::SequenceId sequence, const DraftAdvance& advance) {
  internal::v1::Advance wire;
  wire.set_sequence(base::Number(sequence));
  wire.set_round(advance.round);
  *wire.mutable_prefix() = speculation::ToWire(advance.prefix);
  if (advance.outcome.has_value()) {
    wire.mutable_outcome()->mutable_block_id()->set_value(base::Number(advance.outcome->block_id));
    wire.mutable_outcome()->set_node(advance.outcome->node);
    wire.mutable_outcome()->set_next_token(advance.outcome->next_token);
  }
  wire.mutable_shape()->set_max_draft_tokens(advance.max_draft_tokens);
  wire.mutable_shape()->set_max_nodes(advance.max_nodes);
  wire.mutable_shape()->set_min_confidence(static_cast<float>(advance.min_confidence));
  wire.mutable_shape()->set_max_outcomes(advance.max_outcomes);
  wire.mutable_shape()->set_wanted_within_us(
      std::max<int64_t>(1, absl::ToInt64Microseconds(advance.wanted_within)));
  if (advance.trace.has_value()) *wire.mutable_trace() = messages::ToWire(*advance.trace);
  return wire;
}

internal::v1::Submitted SubmittedToWire(base::SequenceId sequence, base::BlockId block_id,
                                        uint32_t nodes) {
  internal::v1::Submitted wire;
  wire.set_sequence(base::Number(sequence));
  wire.mutable_block_id()->set_value(base::Number(block_id));
  wire.set_nodes(nodes);
  return wire;
}

bool IsPrepared(const internal::v1::Block& block) {
  return block.has_assumes() && !block.final() && block.status() == internal::v1::STATUS_OK;
}

PreparedBlock PreparedFromWire(const internal::v1::Block& block) {
  return {.base = base::BlockId{block.assumes().block_id().value()},
          .node = block.assumes().node(),
          .next_token = block.assumes().next_token(),
          .block = speculation::FromWire(block)};
}

DraftReplyBlock FromWire(const internal::v1::Block& block) {
  DraftReplyBlock reply;
  reply.round = block.round();
  reply.status = BlockStatusFromWire(block.status());
  reply.block = speculation::FromWire(block);
  if (reply.status != DraftReplyBlock::Status::kOk) {
    const internal::v1::Problem& problem = block.problem();
    reply.message =
        absl::StrCat(internal::v1::Status_Name(block.status()), problem.field().empty() ? "" : " ",
                     problem.field(), problem.message().empty() ? "" : ": ", problem.message());
    reply.held = problem.held();
    reply.retry_after = absl::Microseconds(problem.retry_after_us());
  } else {
    reply.is_whole = block.final() && !block.has_assumes();
    if (!reply.is_whole_chain()) {
      reply.message = absl::StrCat("the draft sent ", Unserved(block), ", and a whole ",
                                   reply.is_whole ? "chain" : "block", " was asked for");
    }
  }
  reply.queued = absl::Microseconds(block.queued_us());
  reply.at_draft = reply.queued + absl::Microseconds(block.computed_us());
  return reply;
}

}  // namespace tandem::orchestrator
