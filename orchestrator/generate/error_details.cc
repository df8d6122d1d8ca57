#include "orchestrator/generate/error_details.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/messages/status_details.h"

namespace tandem::orchestrator {
namespace {

bool IsPathCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '[' ||
         c == ']' || c == '-';
}

// Errors that say what is wrong with no field in front.
constexpr std::pair<absl::string_view, absl::string_view> kOthers[] = {
    {"the prompt has ", "prompt"},
    {"constrained output ", "structured"},
};

// The path that the message begins with, as `sampling.logit_bias[3]`.
std::string Field(absl::string_view message, const google::protobuf::Descriptor& request) {
  for (const auto& [text, field] : kOthers) {
    if (absl::StartsWith(message, text)) return std::string(field);
  }
  const auto end = std::find_if_not(message.begin(), message.end(), IsPathCharacter);
  const absl::string_view path = message.substr(0, static_cast<size_t>(end - message.begin()));
  const std::string first(path.substr(0, path.find_first_of(".[")));
  const bool known = request.FindFieldByName(first) != nullptr ||
                     request.FindOneofByName(first) != nullptr || first == "x-request-id";
  return known ? std::string(path) : std::string();
}

}  // namespace

absl::Status WithDetails(absl::Status status, const google::protobuf::Descriptor& request) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      if (const std::string field = Field(status.message(), request); !field.empty()) {
        messages::AddBadRequest(field, status);
      }
      break;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      if (messages::RetryDelay(status).has_value()) break;
      messages::AddRetryInfo(absl::Seconds(kRetrySeconds), status);
      break;
    default:
      break;
  }
  return status;
}

}  // namespace tandem::orchestrator
