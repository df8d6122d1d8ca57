#include "orchestrator/draft/prepared_blocks.h"

#include <algorithm>
#include <utility>

#include "common/messages/request_options.h"

namespace tandem::orchestrator {

void PreparedBlocks::Begin(base::BlockId base, uint32_t committed) {
  Clear();
  base_ = base;
  committed_ = committed;
}

void PreparedBlocks::Add(PreparedBlock prepared) {
  if (prepared.base != base_ || base_ == base::BlockId()) return;
  if (blocks_.size() >= kMaxOutcomes) return;
  const CandidateTree& block = prepared.block;
  const bool serves = !block.empty() && block.is_chain() && block.q.empty() &&
                      block.size() <= messages::kMaxDraftTokens && block.id != base::BlockId();
  if (!serves) return;
  const bool known = std::any_of(blocks_.begin(), blocks_.end(), [&](const PreparedBlock& other) {
    return (other.node == prepared.node && other.next_token == prepared.next_token) ||
           other.block.id == block.id;
  });
  if (!known) blocks_.push_back(std::move(prepared));
}

PreparedBlocks::Taken PreparedBlocks::Take(uint32_t committed) {
  Taken taken;
  const bool follows = base_ != base::BlockId() && outcome_.has_value() &&
                       outcome_->block_id == base_ && committed == committed_ + outcome_->node + 1;
  if (follows) {
    taken.use = blocks_.empty() ? PreparedUse::kLate : PreparedUse::kMiss;
    for (PreparedBlock& prepared : blocks_) {
      if (prepared.node != outcome_->node || prepared.next_token != outcome_->next_token) continue;
      taken = {PreparedUse::kHit, std::move(prepared.block)};
      break;
    }
  }
  Clear();
  return taken;
}

void PreparedBlocks::Clear() {
  base_ = {};
  blocks_.clear();
  outcome_.reset();
}

}  // namespace tandem::orchestrator
