#include "orchestrator/openai/token_routes.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/fields.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

constexpr uint64_t kBytesWithoutATarget = 1 << 20;  // of a text

absl::Status CheckModel(Fields& fields, const TokenRouteOptions& options) {
  const auto model = fields.Text("model");
  if (!model.has_value() || *model == options.model_name) return absl::OkStatus();
  return ModelNotFound(model->substr(0, 256), options.model_name);
}

// As for prompts: what cannot fit into the context is not tokenised, for that takes long.
absl::Status CheckLength(const std::string& prompt, const tokenizer::Tokenizer& tokenizer,
                         const TokenRouteOptions& options) {
  const uint64_t max_bytes = options.context_length > 0
                                 ? uint64_t{options.context_length} * tokenizer.max_token_bytes()
                                 : kBytesWithoutATarget;
  if (prompt.size() <= max_bytes) return absl::OkStatus();
  return FieldError("prompt", absl::StrCat("prompt has ", prompt.size(), " bytes; at most ",
                                           max_bytes, " can fit into the model's context"));
}

}  // namespace

absl::StatusOr<std::string> Tokenize(const base::JsonValue& body,
                                     const tokenizer::Tokenizer& tokenizer,
                                     const TokenRouteOptions& options) {
  Fields fields(body);
  TANDEM_RETURN_IF_ERROR(CheckModel(fields, options));
  const std::optional<std::string> prompt = fields.Text("prompt");
  if (!prompt.has_value()) fields.Fail("prompt", "is missing: give a text");
  const bool special = fields.Bool("add_special_tokens").value_or(true);
  const bool with_texts = fields.Bool("return_token_strs").value_or(false);
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  TANDEM_RETURN_IF_ERROR(CheckLength(*prompt, tokenizer, options));
  const absl::StatusOr<std::vector<uint32_t>> ids = tokenizer.Encode(*prompt, special);
  if (!ids.ok()) return FieldError("prompt", absl::StrCat("prompt: ", ids.status().message()));
  JsonObject answer({{"count", ids->size()},
                     {"max_model_len", options.context_length},
                     {"tokens", JsonText::Array(*ids)}});
  if (with_texts) {
    std::vector<JsonText> texts;
    for (uint32_t id : *ids) texts.emplace_back(std::string(tokenizer.TokenBytes(id)));
    answer.Set("token_strs", texts);
  }
  return answer.text();
}

absl::StatusOr<std::string> Detokenize(const base::JsonValue& body,
                                       const tokenizer::Tokenizer& tokenizer,
                                       const TokenRouteOptions& options) {
  Fields fields(body);
  TANDEM_RETURN_IF_ERROR(CheckModel(fields, options));
  const std::optional<std::vector<uint32_t>> ids = fields.Ids("tokens");
  if (!ids.has_value()) fields.Fail("tokens", "is missing: give a list of token ids");
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  const absl::StatusOr<std::string> text = tokenizer.Decode(*ids);
  if (!text.ok()) return FieldError("tokens", absl::StrCat("tokens: ", text.status().message()));
  return JsonObject({{"prompt", *text}}).text();
}

}  // namespace tandem::orchestrator
