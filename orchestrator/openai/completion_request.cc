#include "orchestrator/openai/completion_request.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/messages/parse.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/json_shape.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr uint32_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr uint64_t kMaxTop = 20;

// A text, a list of ids, or a list of one of these.
void ReadPrompt(Fields& fields, v1::GenerateRequest& to) {
  std::optional<base::JsonValue> prompt = fields.Any("prompt");
  if (!prompt.has_value()) return fields.Missing("prompt", "is missing: give a text or token ids");
  const bool is_list = prompt->IsArray() && prompt->size() > 0 && !(*prompt)[0].Number();
  if (is_list && prompt->size() > 1) {
    return fields.Fail("prompt", absl::StrCat("has ", prompt->size(),
                                              " prompts; one is served: send a request for each"));
  }
  if (is_list) prompt = (*prompt)[0];
  if (std::optional<std::string> text = prompt->String()) {
    to.set_text(*std::move(text));
    return;
  }
  const std::optional<std::vector<uint32_t>> ids = TokenIds(*prompt);
  if (!ids.has_value()) {
    return fields.Fail("prompt", "is neither a text nor a list of token ids");
  }
  to.mutable_ids()->mutable_ids()->Add(ids->begin(), ids->end());
}

}  // namespace

absl::StatusOr<base::JsonValue> ParseBody(absl::string_view body) {
  const JsonShape shape = ShapeOf(body);
  if (shape.depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the body is nested more than ", kMaxDepth, " levels deep"));
  }
  if (shape.bytes > messages::kMaxParsedBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the body would take ", shape.bytes,
                                                   " bytes of memory; at most ",
                                                   messages::kMaxParsedBytes));
  }
  if (const auto name = base::RepeatedJsonName(body)) {
    const std::string shown = name->substr(0, kMaxShownName);
    return FieldError(shown, absl::StrCat("the body has the parameter '", shown,
                                          "' twice in one object: give it once"));
  }
  absl::StatusOr<base::JsonValue> value = base::JsonValue::Parse(body);
  if (!value.ok()) return absl::InvalidArgumentError("the body is not JSON in UTF-8");
  if (!value->IsObject()) return absl::InvalidArgumentError("the body is not a JSON object");
  return value;
}

absl::StatusOr<CompletionRequest> ParseCompletion(const base::JsonValue& body) {
  CompletionRequest request;
  Fields fields(body);
  ReadPrompt(fields, request.wire);
  ReadSharedFields(fields, request);
  const auto max_tokens = fields.Unsigned("max_tokens", 1, UINT32_MAX);
  request.wire.set_max_tokens(static_cast<uint32_t>(max_tokens.value_or(kDefaultMaxTokens)));
  request.wire.set_fit_max_tokens(!max_tokens.has_value());
  if (const auto top = fields.Unsigned("logprobs", 0, kMaxTop)) {
    request.logprobs = true;
    request.wire.mutable_logprobs()->set_top(static_cast<uint32_t>(*top));
  }
  request.echo = fields.Bool("echo").value_or(false);
  if (request.echo && request.logprobs) {
    fields.Fail("echo", "is not served together with logprobs");
  }
  if (request.wire.has_logprobs() && !request.logprobs) {
    fields.Fail("tandem.processed_logprobs", "is there, but logprobs is not");
  }
  const uint64_t samples = std::max(1u, request.wire.samples());
  if (const auto best_of = fields.Unsigned("best_of", 0, UINT32_MAX);
      best_of.has_value() && *best_of != 1 && *best_of != samples) {
    fields.Fail("best_of", "is not served: all texts that are drawn are sent; leave it out");
  }
  if (const auto suffix = fields.Text("suffix"); suffix.has_value() && !suffix->empty()) {
    fields.Fail("suffix", "is not served");
  }
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  return request;
}

}  // namespace tandem::orchestrator
