#include "orchestrator/openai/token_routes.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/fields.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

absl::Status CheckModel(Fields& fields, absl::string_view model_name) {
  const auto model = fields.Text("model");
  if (!model.has_value() || *model == model_name) return absl::OkStatus();
  return ModelNotFound(model->substr(0, 256), model_name);
}

}  // namespace

absl::StatusOr<TokenizeBody> ParseTokenize(const base::JsonValue& body,
                                           absl::string_view model_name) {
  Fields fields(body);
  TANDEM_RETURN_IF_ERROR(CheckModel(fields, model_name));
  TokenizeBody parsed;
  if (fields.Any("messages").has_value()) {
    ReadConversation(fields, parsed.conversation.emplace());
    // Templates write the tokens around a text themselves.
    fields.Only("add_special_tokens", false);
    if (const auto tools = fields.Any("tools")) {
      if (!tools->IsArray()) fields.Fail("tools", "is not a list");
      parsed.conversation->tools = tools->Dump();
    }
  } else if (std::optional<std::string> prompt = fields.Text("prompt")) {
    parsed.request.set_text(*std::move(prompt));
    if (const auto special = fields.Bool("add_special_tokens")) {
      parsed.request.set_add_special_tokens(*special);
    }
  } else {
    fields.Missing("prompt", "is missing: give a text, or messages");
  }
  parsed.request.set_token_bytes(fields.Bool("return_token_strs").value_or(false));
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  return parsed;
}

std::string TokenizeJson(const v1::TokenizeReply& reply, bool with_texts) {
  const std::vector<uint32_t> ids(reply.token_ids().begin(), reply.token_ids().end());
  JsonObject answer({{"count", ids.size()},
                     {"max_model_len", reply.context_length()},
                     {"tokens", JsonText::Array(ids)}});
  if (with_texts) {
    std::vector<JsonText> texts;
    for (const std::string& text : reply.token_bytes()) texts.emplace_back(text);
    answer.Set("token_strs", texts);
  }
  return answer.text();
}

absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(const base::JsonValue& body,
                                                      absl::string_view model_name) {
  Fields fields(body);
  TANDEM_RETURN_IF_ERROR(CheckModel(fields, model_name));
  const std::optional<std::vector<uint32_t>> ids = fields.Ids("tokens");
  if (!ids.has_value()) fields.Missing("tokens", "is missing: give a list of token ids");
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  v1::DetokenizeRequest request;
  request.mutable_token_ids()->Add(ids->begin(), ids->end());
  return request;
}

std::string DetokenizeJson(const v1::DetokenizeReply& reply) {
  return JsonObject({{"prompt", reply.text()}}).text();
}

}  // namespace tandem::orchestrator
