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
constexpr size_t kMaxPrompts = 64;

// A text, or a list of ids.
bool ReadOnePrompt(const base::JsonValue& prompt, v1::GenerateRequest& to) {
  if (std::optional<std::string> text = prompt.String()) {
    to.set_text(*std::move(text));
    return true;
  }
  const std::optional<std::vector<uint32_t>> ids = TokenIds(prompt);
  if (ids.has_value()) to.mutable_ids()->mutable_ids()->Add(ids->begin(), ids->end());
  return ids.has_value();
}

// One of these, or a list of them.
void ReadPrompts(Fields& fields, CompletionRequest& to) {
  const std::optional<base::JsonValue> prompt = fields.Any("prompt");
  if (!prompt.has_value()) return fields.Missing("prompt", "is missing: give a text or token ids");
  const bool is_list = prompt->IsArray() && prompt->size() > 0 && !(*prompt)[0].Number();
  if (!is_list) {
    if (ReadOnePrompt(*prompt, to.wire)) return;
    return fields.Fail("prompt", "is neither a text nor a list of token ids");
  }
  if (prompt->size() > kMaxPrompts) {
    return fields.Fail("prompt", absl::StrCat("has ", prompt->size(), " prompts; at most ",
                                              kMaxPrompts, " are served in one request"));
  }
  to.others.resize(prompt->size() - 1);
  for (size_t i = 0; i < prompt->size(); ++i) {
    if (ReadOnePrompt((*prompt)[i], i == 0 ? to.wire : to.others[i - 1])) continue;
    return fields.Fail(absl::StrCat("prompt[", i, "]"),
                       "is neither a text nor a list of token ids");
  }
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
  ReadPrompts(fields, request);
  ReadSharedFields(fields, request);
  request.echo = fields.Bool("echo").value_or(false);
  // Of an echo alone the prompt is computed with one token more, which is left out.
  const auto max_tokens = fields.Unsigned("max_tokens", request.echo ? 0 : 1, UINT32_MAX);
  request.echo_alone = max_tokens == 0;
  request.wire.set_max_tokens(
      request.echo_alone ? 1 : static_cast<uint32_t>(max_tokens.value_or(kDefaultMaxTokens)));
  request.wire.set_fit_max_tokens(!max_tokens.has_value());
  if (const auto top = fields.Unsigned("logprobs", 0, kMaxTop)) {
    request.logprobs = true;
    request.wire.mutable_logprobs()->set_top(static_cast<uint32_t>(*top));
  }
  if (request.echo && request.logprobs) request.wire.mutable_logprobs()->set_prompt(true);
  if (request.wire.has_logprobs() && !request.logprobs) {
    fields.Fail("tandem.processed_logprobs", "is there, but logprobs is not");
  }
  const uint64_t samples = std::max(1u, request.wire.samples());
  if (const auto best_of = fields.Unsigned("best_of", 0, UINT32_MAX);
      best_of.has_value() && *best_of != 1 && *best_of != samples) {
    fields.Fail("best_of", "is not supported: all generated texts are sent; leave it out");
  }
  if (const auto suffix = fields.Text("suffix"); suffix.has_value() && !suffix->empty()) {
    fields.Fail("suffix", "is not supported");
  }
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  return request;
}

}  // namespace tandem::orchestrator
