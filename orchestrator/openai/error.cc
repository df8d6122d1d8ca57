#include "orchestrator/openai/error.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"
#include "common/messages/status_details.h"
#include "orchestrator/generate/error_details.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::string_view kFieldPayload = "tandem.v1.field";
constexpr absl::string_view kCodePayload = "tandem.v1.code";

// A path of GenerateRequest, and the field's name over HTTP; empty: the prompt's. Longer paths stand
// before their beginnings.
constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
    {"logprobs.top", "logprobs"},
    {"sampling.banned_token_ids", "tandem.banned_token_ids"},
    {"sampling.", ""},  // the rest of these have the same name
    {"stop.strings", "stop"},
    {"stop.token_ids", "stop_token_ids"},
    {"speculation.fixed", "tandem.draft_tokens"},
    {"speculation.auto", "tandem.draft_tokens"},
    {"speculation.", "tandem."},
    {"samples", "n"},
    {"user", "user"},
    {"max_tokens", "max_tokens"},
    {"messages", "messages"},
    {"template_arguments", "chat_template_kwargs"},
    {"first_sample", "tandem.first_sample"},
    {"priority", "tandem.priority"},
    {"cache_scope", "tandem.cache_scope"},
    {"output_prefix_ids", "tandem.output_prefix_ids"},
    {"token_ids", "tokens"},  // of /detokenize
};
constexpr absl::string_view kPromptPaths[] = {"text's ids", "text",       "ids.ids",
                                              "ids",        "the prompt", "prompt"};

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

// Ends where a path ends.
bool HasPath(absl::string_view message, absl::string_view path) {
  if (!absl::StartsWith(message, path)) return false;
  return path.back() == '.' || message.size() == path.size() ||
         !IsNameCharacter(message[path.size()]);
}

// Other fields that a message names, and the values of enums.
void NameOthers(std::string& message, const FieldNames& names) {
  std::vector<std::pair<std::string, std::string>> replaced = {
      {"speculation.fixed", "tandem.draft_tokens"},
      {"speculation.", "tandem."},
      {"LENGTH_POLICY_AUTO", "auto"},
      {"LENGTH_POLICY_HEURISTIC", "heuristic"},
      {"RULE_LENIENT", "lenient"},
      {"with samples ", "with n "},
      {"its own first_sample", "its own tandem.first_sample"},
  };
  if (names.max_tokens != "max_tokens")
    replaced.emplace_back(" max_tokens", " " + names.max_tokens);
  message = absl::StrReplaceAll(message, replaced);
}

void NameField(ApiError& error, const FieldNames& names) {
  const std::string message = error.message;
  for (absl::string_view path : kPromptPaths) {
    if (!HasPath(message, path)) continue;
    error.param = names.prompt;
    if (path != "the prompt") error.message = names.prompt + message.substr(path.size());
    return;
  }
  for (const auto& [path, name] : kNames) {
    if (!HasPath(message, path)) continue;
    error.message =
        absl::StrCat(path == "max_tokens" ? names.max_tokens : name, message.substr(path.size()));
    // Of a conversation the whole path: messages[2].role.
    const bool with_index = path == "messages";
    const auto end = std::find_if_not(error.message.begin(), error.message.end(), [&](char c) {
      return IsNameCharacter(c) || (with_index && (c == '[' || c == ']'));
    });
    error.param = std::string(error.message.begin(), end);
    return;
  }
}

std::pair<int, absl::string_view> CodeAndType(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return {400, "invalid_request_error"};
    case absl::StatusCode::kUnauthenticated:
      return {401, "authentication_error"};
    case absl::StatusCode::kNotFound:
      return {404, "invalid_request_error"};
    case absl::StatusCode::kResourceExhausted:
      return {429, "rate_limit_error"};
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kFailedPrecondition:  // the services do not fit each other, for now
      return {503, "service_unavailable_error"};
    case absl::StatusCode::kDeadlineExceeded:
      return {504, "timeout_error"};
    case absl::StatusCode::kUnimplemented:
      return {501, "server_error"};
    default:
      return {500, "server_error"};
  }
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view message,
                        absl::string_view code) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kFieldPayload, absl::Cord(field));
  if (!code.empty()) status.SetPayload(kCodePayload, absl::Cord(code));
  return status;
}

absl::Status ModelNotFound(absl::string_view asked, absl::string_view served) {
  absl::Status status = absl::NotFoundError(
      absl::StrCat("model \"", asked, "\" is not served: there is \"", served, "\""));
  status.SetPayload(kFieldPayload, absl::Cord("model"));
  status.SetPayload(kCodePayload, absl::Cord("model_not_found"));
  return status;
}

ApiError ToApiError(const absl::Status& status, const FieldNames& names) {
  ApiError error;
  const auto [code, type] = CodeAndType(status.code());
  error.code = code;
  error.type = std::string(type);
  error.message = std::string(status.message());
  if (const auto delay = messages::RetryDelay(status)) {
    error.retry_seconds =
        static_cast<int>(absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1))));
  }
  if (const auto field = status.GetPayload(kFieldPayload)) {
    error.param = std::string(*field);
  } else if (absl::IsInvalidArgument(status)) {
    NameField(error, names);
    NameOthers(error.message, names);
  } else if (code == 401) {
    error.name = "invalid_api_key";
  } else if (code == 429) {
    error.name = "rate_limit_exceeded";
  }
  if (status.GetPayload(kContextExceeded).has_value()) {
    error.name = "context_length_exceeded";
    // Some clients see the message alone, and look for the code in it.
    absl::StrAppend(&error.message, " (", error.name, ")");
  }
  if (const auto name = status.GetPayload(kCodePayload)) error.name = std::string(*name);
  return error;
}

std::string ErrorJson(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? base::JsonText(nullptr) : base::JsonText(text);
  };
  return base::JsonObject({{"error", base::JsonObject({{"message", error.message},
                                                       {"type", error.type},
                                                       {"param", or_null(error.param)},
                                                       {"code", or_null(error.name)}})}})
      .text();
}

http::Response ErrorResponse(int code, absl::string_view message) {
  ApiError error;
  error.code = code;
  error.message = std::string(message);
  error.type = code >= 500   ? "server_error"
               : code == 403 ? "permission_error"
                             : "invalid_request_error";
  return ErrorResponse(error);
}

http::Response ErrorResponse(const ApiError& error) {
  http::Response response;
  response.code = error.code;
  response.body = ErrorJson(error);
  if (error.code == 429 || error.code == 503) {
    response.headers.push_back(
        {"Retry-After", absl::StrCat(std::max(kRetrySeconds, error.retry_seconds))});
  }
  if (error.code == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace tandem::orchestrator
