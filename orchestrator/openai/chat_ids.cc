#include "orchestrator/openai/chat_ids.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/tokenizer/chat_template.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/openai/chat_request.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {
namespace {

constexpr uint64_t kSpareBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ChatIds(const Conversation& conversation,
                                              const tokenizer::ChatTemplate* chat_template,
                                              uint32_t context_length, size_t max_token_bytes) {
  if (chat_template == nullptr) {
    return FieldError("messages", "messages: the model has no chat template");
  }
  // JSON's own characters are not the prompt's, so there is room for them.
  const uint64_t max_bytes = uint64_t{context_length} * max_token_bytes;
  if (max_bytes > 0 && conversation.messages.size() > 2 * max_bytes + kSpareBytes) {
    return ContextExceeded("messages has ", conversation.messages.size(),
                           " bytes, more than fit: ", ContextWords(context_length));
  }
  tokenizer::ChatInput input;
  input.messages = conversation.messages;
  input.tools = conversation.tools;
  input.arguments = conversation.arguments;
  input.add_generation_prompt = conversation.add_generation_prompt;
  absl::StatusOr<tokenizer::ChatPrompt> prompt = chat_template->Apply(input);
  if (prompt.ok()) return std::move(prompt->ids);
  if (!absl::IsInvalidArgument(prompt.status())) return prompt.status();
  // One that begins with a path in the conversation names it by itself.
  const absl::string_view message = prompt.status().message();
  const bool named =
      absl::StartsWith(message, "messages[") || absl::StartsWith(message, "template_arguments:");
  return named ? prompt.status() : FieldError("messages", absl::StrCat("messages: ", message));
}

}  // namespace tandem::orchestrator
