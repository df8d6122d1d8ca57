#include "orchestrator/generate/reply_bytes.h"

#include <cstdint>

namespace tandem::orchestrator {
namespace {

constexpr size_t kReply = 256;  // the reply, its one part, its places in queues
constexpr size_t kHeap = 16;    // what the heap adds to a block
constexpr size_t kOfToken = 2 * (sizeof(uint32_t) + sizeof(float));  // arrays grow by doubling
constexpr size_t kPointer = 2 * sizeof(void*);                       // likewise

template <typename Tops>
size_t TopBytes(const Tops& tops) {
  size_t bytes = 0;
  for (const v1::TopLogprobs& top : tops) {
    bytes += sizeof(v1::TopLogprobs) + kHeap + kPointer +
             (sizeof(v1::TokenLogprob) + kHeap + kPointer) * top.tokens_size();
  }
  return bytes;
}

}  // namespace

size_t ReplyBytes(const v1::GenerateReply& reply) {
  switch (reply.kind_case()) {
    case v1::GenerateReply::kDelta: {
      const v1::Delta& delta = reply.delta();
      return kReply + delta.text().capacity() + kOfToken * delta.token_ids_size() +
             TopBytes(delta.top_logprobs());
    }
    case v1::GenerateReply::kPromptLogprobs: {
      const v1::PromptLogprobs& prompt = reply.prompt_logprobs();
      return kReply + kOfToken * prompt.token_ids_size() + TopBytes(prompt.top());
    }
    default:  // those are few, or asked for by whoever wants to see rounds
      return kReply + reply.SpaceUsedLong();
  }
}

}  // namespace tandem::orchestrator
