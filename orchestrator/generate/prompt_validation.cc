#include "orchestrator/generate/prompt_validation.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kBytesWithoutATarget = size_t{1} << 20;

// Whether a prompt of so many bytes can fit, before time is spent on it.
absl::Status CheckBytes(absl::string_view field, size_t bytes, const PromptFacts& model) {
  if (model.context_length == 0) {
    if (bytes <= kBytesWithoutATarget) return absl::OkStatus();
    return Invalid(field, " has ", bytes, " bytes; at most ", kBytesWithoutATarget,
                   " while no target has reported the model's context length");
  }
  const uint64_t max_bytes = uint64_t{model.context_length} * model.max_token_bytes;
  if (max_bytes == 0 || bytes <= max_bytes) return absl::OkStatus();
  return ContextExceeded(field, " has ", bytes, " bytes, and at most ", max_bytes,
                         " can fit: ", ContextWords(model.context_length),
                         ", and its longest token has ", model.max_token_bytes, " bytes");
}

absl::Status CheckEncoded(absl::string_view field, const std::vector<uint32_t>& prompt,
                          const ModelFacts& model) {
  if (prompt.empty()) return Invalid(field, " has no tokens in the model's vocabulary");
  const absl::Status known = CheckIds(absl::StrCat(field, "'s ids"), prompt, model.vocabulary_size);
  if (known.ok()) return absl::OkStatus();
  return Invalid(field,
                 " has a token that the tokenizer knows but the model does not: ", known.message());
}

// A switch of text means nothing elsewhere, and nothing is ignored silently.
template <typename Request>
absl::Status CheckTextSwitches(const Request& request) {
  if (request.has_text()) return absl::OkStatus();
  const absl::string_view field = request.has_add_special_tokens()     ? "add_special_tokens"
                                  : request.has_parse_special_tokens() ? "parse_special_tokens"
                                                                       : "";
  if (field.empty()) return absl::OkStatus();
  return Invalid(field, " is set, but the prompt is not a text: leave it out");
}

template <typename Request>
absl::StatusOr<std::vector<uint32_t>> TextIds(const Request& request, const PromptFacts& model) {
  TANDEM_RETURN_IF_ERROR(CheckBytes("text", request.text().size(), model));
  TextOptions options;
  if (request.has_add_special_tokens()) options.add_special_tokens = request.add_special_tokens();
  if (request.has_parse_special_tokens()) {
    options.parse_special_tokens = request.parse_special_tokens();
  }
  absl::StatusOr<std::vector<uint32_t>> ids = model.encode(request.text(), options);
  if (!ids.ok()) return Invalid("text: ", ids.status().message());
  return ids;
}

// `error` begins with a path within the conversation, or speaks of the whole.
absl::Status InvalidConversation(absl::string_view error) {
  for (const absl::string_view field : {"messages", "tools", "template_arguments"}) {
    if (absl::StartsWith(error, absl::StrCat(field, ":")) ||
        absl::StartsWith(error, absl::StrCat(field, "["))) {
      return Invalid("conversation.", error);
    }
  }
  return Invalid("conversation: ", error);
}

absl::StatusOr<std::vector<uint32_t>> ConversationIds(const v1::Conversation& conversation,
                                                      const PromptFacts& model) {
  if (!model.encode_conversation) {
    return Invalid("conversation: the model has no chat template; give text or ids");
  }
  if (conversation.messages().empty()) {
    return Invalid("conversation.messages is empty: a conversation has at least one message");
  }
  // A template may leave messages out, but none that is served leaves out most of the text.
  TANDEM_RETURN_IF_ERROR(CheckBytes("conversation", conversation.ByteSizeLong(), model));
  absl::StatusOr<std::vector<uint32_t>> ids = model.encode_conversation(conversation);
  if (!ids.ok()) return InvalidConversation(ids.status().message());
  return ids;
}

}  // namespace

absl::Status FillPrompt(const v1::GenerateRequest& request, const ModelFacts& model,
                        std::vector<uint32_t>& prompt) {
  TANDEM_RETURN_IF_ERROR(CheckTextSwitches(request));
  switch (request.prompt_case()) {
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return Invalid("prompt is missing: give text, ids or conversation");
    case v1::GenerateRequest::kText: {
      if (request.text().empty()) return Invalid("text is empty: a prompt has at least one byte");
      TANDEM_ASSIGN_OR_RETURN(prompt, TextIds(request, model));
      TANDEM_RETURN_IF_ERROR(CheckEncoded("text", prompt, model));
      break;
    }
    case v1::GenerateRequest::kConversation: {
      TANDEM_ASSIGN_OR_RETURN(prompt, ConversationIds(request.conversation(), model));
      TANDEM_RETURN_IF_ERROR(CheckEncoded("conversation", prompt, model));
      break;
    }
    case v1::GenerateRequest::kIds:
      prompt.assign(request.ids().ids().begin(), request.ids().ids().end());
      if (prompt.empty()) return Invalid("ids is empty: a prompt has at least one token");
      TANDEM_RETURN_IF_ERROR(CheckIds("ids.ids", prompt, model.vocabulary_size));
      break;
  }
  if (prompt.size() >= model.text_length()) {
    return ContextExceeded("the prompt has ", prompt.size(), " tokens, and ", model.LengthWords(),
                           ": there must be room for at least one more");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> PromptIds(const v1::TokenizeRequest& request,
                                                const PromptFacts& model) {
  TANDEM_RETURN_IF_ERROR(CheckTextSwitches(request));
  switch (request.prompt_case()) {
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      return Invalid("prompt is missing: give text or conversation");
    case v1::TokenizeRequest::kText:
      return TextIds(request, model);
    case v1::TokenizeRequest::kConversation:
      return ConversationIds(request.conversation(), model);
  }
  return Invalid("prompt is of an unknown kind");
}

}  // namespace tandem::orchestrator
