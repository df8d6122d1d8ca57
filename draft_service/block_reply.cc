#include "draft_service/block_reply.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::draft_service {

v1::Block RefusedBlock(uint64_t sequence, uint64_t round, messages::Refusal refusal) {
  v1::Block block;
  block.set_sequence(sequence);
  block.set_round(round);
  block.set_status(refusal.status);
  *block.mutable_problem() = std::move(refusal.problem);
  block.set_final(true);
  return block;
}

v1::Block DraftedReply(uint64_t sequence, uint64_t round, uint64_t block_id,
                       const DraftedBlock& drafted, uint32_t vocabulary_size) {
  TANDEM_CHECK(drafted.q.empty() || drafted.q.size() == drafted.tokens.size());
  v1::Block block;
  block.set_sequence(sequence);
  block.set_round(round);
  block.set_status(v1::STATUS_OK);
  block.set_final(true);
  block.mutable_block_id()->set_value(block_id);
  for (uint32_t token : drafted.tokens) {
    TANDEM_CHECK(token < vocabulary_size) << token;
    block.add_tokens(token);
  }
  for (const sampling::SparseDistribution& q : drafted.q) {
    v1::SparseDistribution* sent = block.add_q();
    sent->mutable_ids()->Add(q.ids.begin(), q.ids.end());
    sent->mutable_weights()->Add(q.weights.begin(), q.weights.end());
  }
  return block;
}

}  // namespace tandem::draft_service
