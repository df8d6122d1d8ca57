#include "orchestrator/generate/reply_bytes.h"

#include <cstdint>
#include <string>

namespace tandem::orchestrator {
namespace {

constexpr size_t kReply = 256;  // the reply, its one part, its places in queues
constexpr size_t kHeap = 16;    // what the heap adds to a block
constexpr size_t kOfToken = 2 * (sizeof(uint32_t) + sizeof(float));  // arrays grow by doubling
constexpr size_t kPointer = 2 * sizeof(void*);                       // likewise

size_t StringBytes(const std::string& text) {
  return sizeof(std::string) + kHeap + kPointer + text.capacity();
}

template <typename Strings>
size_t AllBytes(const Strings& strings) {
  size_t bytes = 0;
  for (const std::string& text : strings) bytes += StringBytes(text);
  return bytes;
}

template <typename Tops>
size_t TopBytes(const Tops& tops) {
  size_t bytes = 0;
  for (const v1::TopLogprobs& top : tops) {
    bytes += sizeof(v1::TopLogprobs) + kHeap + kPointer +
             (sizeof(v1::TokenLogprob) + kHeap + kPointer) * top.tokens_size();
    for (const v1::TokenLogprob& one : top.tokens()) {
      if (!one.token_bytes().empty()) bytes += StringBytes(one.token_bytes());
    }
  }
  return bytes;
}

}  // namespace

size_t ReplyBytes(const v1::GenerateReply& reply) {
  switch (reply.kind_case()) {
    case v1::GenerateReply::kDelta: {
      const v1::Delta& delta = reply.delta();
      return kReply + delta.text().capacity() + kOfToken * delta.token_ids_size() +
             TopBytes(delta.top_logprobs()) + AllBytes(delta.token_bytes()) +
             (sizeof(v1::TextRun) + kHeap + kPointer) * delta.text_runs_size();
    }
    case v1::GenerateReply::kPromptLogprobs: {
      const v1::PromptLogprobs& prompt = reply.prompt_logprobs();
      return kReply + kOfToken * prompt.token_ids_size() + TopBytes(prompt.top()) +
             AllBytes(prompt.token_bytes());
    }
    default:  // those are few, or asked for by whoever wants to see rounds
      return kReply + reply.SpaceUsedLong();
  }
}

}  // namespace tandem::orchestrator
