#include "draft_service/serving/answers.h"

#include <cstdint>

namespace tandem::draft_service {

void Answers::Send(Stream& stream, internal::v1::Block block, EndedAdvance advance) {
  stream.Pay();
  advance.status = block.status();
  advance.drafted = static_cast<uint32_t>(block.tokens_size());
  advance.ended = clock_.Now();
  block.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.computed)));
  block.set_queued_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.queued())));
  observer_.OnEnded(advance);  // before the Block: who has that finds its span
  *block.mutable_load() = load_();
  internal::v1::DraftReply reply;
  *reply.mutable_block() = std::move(block);
  stream.sink->Send(std::move(reply));  // false: its end is on its way
}

void Answers::Drop(EndedAdvance advance) {
  advance.ended = clock_.Now();
  observer_.OnEnded(advance);
}

}  // namespace tandem::draft_service
