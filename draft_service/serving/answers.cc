#include "draft_service/serving/answers.h"

#include <cstdint>
#include <utility>

#include "common/base/check.h"
#include "common/messages/limits.h"
#include "common/speculation/candidate_tree_codec.h"

namespace tandem::draft_service {
namespace {

// Of the Blocks of one message; the rest is for the load and the framing. One Block alone is far
// below it.
constexpr size_t kMaxBytes = messages::kMaxMessageBytes - (64 << 10);

}  // namespace

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

internal::v1::Block PreparedReply(base::SequenceId sequence, uint64_t round, base::BlockId block_id,
                                  absl::Span<const uint32_t> tokens, uint32_t vocabulary_size) {
  speculation::CandidateTree drafted;
  drafted.id = block_id;
  drafted.tokens.assign(tokens.begin(), tokens.end());
  internal::v1::Block block = DraftedReply(sequence, round, drafted, vocabulary_size);
  block.set_final(false);
  return block;
}

void Answers::Put(Stream& stream, std::vector<internal::v1::Block> blocks) {
  for (internal::v1::Block& block : blocks) *stream.unsent.add_next() = std::move(block);
}

void Answers::Put(Stream& stream, internal::v1::Block block, EndedAdvance advance) {
  stream.Pay();
  advance.status = block.status();
  advance.drafted = static_cast<uint32_t>(block.tokens_size());
  advance.ended = clock_.Now();
  block.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.computed)));
  block.set_queued_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.queued())));
  observer_.OnEnded(advance);  // before the Block: who has that finds its span
  *stream.unsent.add_next() = std::move(block);
}

void Answers::Send() {
  streams_.ForEach([this](Stream& stream) { Send(stream); });
}

void Answers::Send(Stream& stream) {
  internal::v1::DraftReply message;
  size_t bytes = 0;
  const auto send = [&] {
    *message.mutable_block()->mutable_load() = load_();
    stream.sink->Send(std::exchange(message, {}));  // false: its end is on its way
    bytes = 0;
  };
  for (internal::v1::Block& block : *stream.unsent.mutable_next()) {
    const size_t more = block.ByteSizeLong();
    if (bytes > 0 && bytes + more > kMaxBytes) send();
    bytes += more;
    *(message.has_block() ? message.add_next() : message.mutable_block()) = std::move(block);
  }
  if (message.has_block()) send();
  stream.unsent.Clear();
}

void Answers::Drop(EndedAdvance advance) {
  advance.ended = clock_.Now();
  observer_.OnEnded(advance);
}

}  // namespace tandem::draft_service
