#include "draft_service/serving/prepared_blocks.h"

#include <utility>

namespace tandem::draft_service {

PreparedBlocks::PreparedBlocks(uint32_t vocabulary_size, Streams& streams, Answers& answers,
                               Sequences& sequences, Passes& passes, DraftObserver& observer)
    : vocabulary_size_(vocabulary_size),
      streams_(streams),
      answers_(answers),
      sequences_(sequences),
      passes_(passes),
      observer_(observer) {}

void PreparedBlocks::Begin(Sequence& sequence, const Unanswered& advance,
                           const CandidateTree& block) {
  const ForwardDrafter* drafter = sequence.forward_drafter();
  const bool is_base = advance.max_outcomes > 0 && advance.max_nodes == 0 &&
                       advance.min_confidence == 0 && !block.empty();
  if (!is_base || !sequence.values_may_decide || drafter == nullptr || !drafter->prepares()) return;
  sequence.base = Base{advance.round, block.id, block.tokens, std::nullopt};
  BeginPreparing(sequence);
}

void PreparedBlocks::BeginPreparing(Sequence& sequence) {
  passes_.Leave(sequence);
  if (passes_.size() >= kMaxPreparing) return;
  sequence.forward_drafter()->BeginPreparing();
  passes_.JoinOrLeave(sequence);
}

void PreparedBlocks::Send(Sequence& sequence) {
  if (!sequence.base.has_value() || sequence.base->sent.has_value()) return;
  Base& base = *sequence.base;
  base.sent.emplace();
  std::vector<internal::v1::Block> blocks;
  for (PreparedBlock& prepared : sequence.forward_drafter()->Prepared()) {
    const base::BlockId id = base::Advance(sequence.last_block);
    internal::v1::Block& block = blocks.emplace_back(
        PreparedReply(sequence.name, base.round, id, prepared.tokens, vocabulary_size_));
    internal::v1::Assumption& assumes = *block.mutable_assumes();
    assumes.set_committed(sequence.committed.size());
    assumes.mutable_block_id()->set_value(base::Number(base.id));
    assumes.set_node(prepared.node);
    assumes.set_next_token(prepared.next_token);
    base.sent->push_back({id, std::move(prepared)});
  }
  observer_.OnPrepared(PreparedEvent::kSent, blocks.size());
  answers_.Put(streams_.At(sequence.stream), std::move(blocks));
}

void PreparedBlocks::OnSubmitted(Sequence& sequence, base::BlockId block, uint32_t nodes) {
  if (!sequence.base.has_value()) return;
  Base& base = *sequence.base;
  if (block == base.id) {
    // Those that were sent stay: of a shorter base they are a part of the outcomes.
    if (!base.sent.has_value()) Cut(sequence, nodes);
    return;
  }
  if (!base.sent.has_value()) return;
  for (size_t i = 0; i < base.sent->size(); ++i) {
    if (base.sent->at(i).id != block) continue;
    Take(sequence, i);
    if (nodes < base.tokens.size()) {
      base.tokens.resize(nodes);
      sequence.forward_drafter()->CutBase(nodes);
    }
    return BeginPreparing(sequence);
  }
}

void PreparedBlocks::Cut(Sequence& sequence, uint32_t nodes) {
  if (nodes >= sequence.base->tokens.size()) return;
  sequence.base->tokens.resize(nodes);
  sequence.forward_drafter()->CutBase(nodes);
  BeginPreparing(sequence);
}

void PreparedBlocks::Take(Sequence& sequence, size_t outcome) {
  Base& base = *sequence.base;
  Base::Outcome taken = std::move(base.sent->at(outcome));
  observer_.OnPrepared(PreparedEvent::kTaken, 1);
  observer_.OnPrepared(PreparedEvent::kDropped, base.sent->size() - 1);
  std::vector<uint32_t> tokens(base.tokens.begin(), base.tokens.begin() + taken.block.node);
  tokens.push_back(taken.block.next_token);
  sequence.forward_drafter()->AcceptPrepared(taken.block.node, taken.block.next_token);
  sequences_.AppendCommitted(sequence, tokens);
  base.id = taken.id;
  base.tokens = std::move(taken.block.tokens);
  base.sent.reset();
}

void PreparedBlocks::End(Sequence& sequence) {
  if (!sequence.base.has_value()) return;
  if (sequence.base->sent.has_value()) {
    observer_.OnPrepared(PreparedEvent::kDropped, sequence.base->sent->size());
  }
  sequence.base.reset();
  if (sequence.drafter != nullptr) sequence.forward_drafter()->StopPreparing();
}

}  // namespace tandem::draft_service
