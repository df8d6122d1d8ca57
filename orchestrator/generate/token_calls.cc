#include "orchestrator/generate/token_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/generate/prompt_validation.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kIdsWithoutATarget = 131072;

}  // namespace

absl::StatusOr<v1::TokenizeReply> Tokenize(const v1::TokenizeRequest& request,
                                           const TokenFacts& facts) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, PromptIds(request, facts));
  v1::TokenizeReply reply;
  reply.mutable_token_ids()->Add(ids.begin(), ids.end());
  if (request.token_bytes()) {
    for (const uint32_t id : ids) reply.add_token_bytes(facts.token_bytes(id));
  }
  reply.set_context_length(facts.context_length);
  return reply;
}

// An id becomes as many bytes as the longest token has, so the number of ids is bounded.
absl::StatusOr<v1::DetokenizeReply> Detokenize(const v1::DetokenizeRequest& request,
                                               const TokenFacts& facts) {
  const uint32_t max_ids = facts.context_length > 0 ? facts.context_length : kIdsWithoutATarget;
  if (static_cast<uint32_t>(request.token_ids_size()) > max_ids) {
    return Invalid("token_ids has ", request.token_ids_size(), " ids; at most ", max_ids);
  }
  absl::StatusOr<std::string> text = facts.decode(request.token_ids());
  if (!text.ok()) return Invalid("token_ids: ", text.status().message());
  v1::DetokenizeReply reply;
  reply.set_text(*std::move(text));
  return reply;
}

}  // namespace tandem::orchestrator
