#include "orchestrator/generate/token_bytes.h"

namespace tandem::orchestrator {
namespace {

template <typename Message, typename Tops>
void SetTokenBytes(const TokenBytes& token_bytes, Message& to, Tops& tops) {
  for (const uint32_t id : to.token_ids()) to.add_token_bytes(token_bytes(id));
  for (v1::TopLogprobs& top : tops) {
    for (v1::TokenLogprob& one : *top.mutable_tokens()) {
      one.set_token_bytes(token_bytes(one.token()));
    }
  }
}

}  // namespace

void AddTokenBytes(const TokenBytes& token_bytes, v1::Delta& to) {
  SetTokenBytes(token_bytes, to, *to.mutable_top_logprobs());
}

void AddTokenBytes(const TokenBytes& token_bytes, v1::PromptLogprobs& to) {
  SetTokenBytes(token_bytes, to, *to.mutable_top());
}

}  // namespace tandem::orchestrator
