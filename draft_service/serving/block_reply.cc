#include "draft_service/serving/block_reply.h"

#include <utility>

#include "common/base/check.h"
#include "common/speculation/candidate_tree_codec.h"

namespace tandem::draft_service {

internal::v1::Block RefusedBlock(base::SequenceId sequence, uint64_t round,
                                 messages::Refusal refusal) {
  internal::v1::Block block;
  block.set_sequence(base::Number(sequence));
  block.set_round(round);
  block.set_status(refusal.status);
  *block.mutable_problem() = std::move(refusal.problem);
  block.set_final(true);
  return block;
}

internal::v1::Block DraftedReply(base::SequenceId sequence, uint64_t round,
                                 const speculation::CandidateTree& drafted,
                                 uint32_t vocabulary_size) {
  TANDEM_CHECK(drafted.has_valid_q_count() && drafted.has_valid_parents());
  for (uint32_t token : drafted.tokens) TANDEM_CHECK(token < vocabulary_size) << token;
  internal::v1::Block block;
  block.set_sequence(base::Number(sequence));
  block.set_round(round);
  block.set_status(internal::v1::STATUS_OK);
  block.set_final(true);
  speculation::ToWire(drafted, block);
  return block;
}

}  // namespace tandem::draft_service
