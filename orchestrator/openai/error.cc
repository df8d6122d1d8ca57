#include "orchestrator/openai/error.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"
#include "common/messages/request_options.h"
#include "common/messages/status_details.h"
#include "orchestrator/generate/error_details.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr absl::string_view kFieldPayload = "tandem.v1.field";
constexpr absl::string_view kCodePayload = "tandem.v1.code";

// Paths that are not options of a request (common/messages/request_options.h), and their names over
// HTTP.
constexpr std::pair<absl::string_view, absl::string_view> kNames[] = {
    {"messages", "messages"},
    {"template_arguments", "chat_template_kwargs"},
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
  return message.size() == path.size() || !IsNameCharacter(message[path.size()]);
}

void NameField(ApiError& error, const FieldNames& names) {
  const std::string message = error.message;
  error.message = messages::InWordsOf(message, [&](const messages::RequestOption& option) {
    return option.path == "max_tokens" ? names.max_tokens : std::string(option.json);
  });
  for (absl::string_view path : kPromptPaths) {
    if (!HasPath(message, path)) continue;
    error.param = names.prompt;
    if (path != "the prompt") error.message = names.prompt + message.substr(path.size());
    return;
  }
  bool named = std::any_of(messages::RequestOptions().begin(), messages::RequestOptions().end(),
                           [&](const auto& option) { return HasPath(message, option.path); });
  bool with_index = false;
  for (const auto& [path, name] : kNames) {
    if (!HasPath(message, path)) continue;
    error.message = absl::StrCat(name, message.substr(path.size()));
    named = true;
    with_index = path == "messages";  // of a conversation the whole path: messages[2].role
  }
  if (!named) return;
  const auto end = std::find_if_not(error.message.begin(), error.message.end(), [&](char c) {
    return IsNameCharacter(c) || (with_index && (c == '[' || c == ']'));
  });
  error.param = std::string(error.message.begin(), end);
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
