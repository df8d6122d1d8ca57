#include "common/hub/settings.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace tandem::hub {
namespace {

using Variable = std::function<const char*(const char* name)>;

constexpr char kPublicHub[] = "https://huggingface.co";
constexpr size_t kMaxToken = 4096;

// Empty counts as not set: that is how a container's environment takes a variable away.
std::string Value(const Variable& variable, const char* name) {
  const char* value = variable(name);
  return value == nullptr ? "" : value;
}

// "~/x" and "$HOME/x" as a shell would read them. A variable that is not set stays as it is
// written.
std::string Expand(const Variable& variable, absl::string_view path) {
  std::string result;
  if (path == "~" || absl::StartsWith(path, "~/")) {
    result = Value(variable, "HOME");
    path.remove_prefix(1);
  }
  while (!path.empty()) {
    const size_t dollar = path.find('$');
    absl::StrAppend(&result, path.substr(0, dollar));
    if (dollar == absl::string_view::npos) break;
    path.remove_prefix(dollar);
    absl::string_view rest = path.substr(1);
    const bool braces = absl::ConsumePrefix(&rest, "{");
    size_t length = 0;
    while (length < rest.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(rest[length])) || rest[length] == '_')) {
      ++length;
    }
    const std::string name(rest.substr(0, length));
    rest.remove_prefix(length);
    const bool closed = !braces || absl::ConsumePrefix(&rest, "}");
    if (name.empty() || !closed || variable(name.c_str()) == nullptr) {
      absl::StrAppend(&result, "$");
      path.remove_prefix(1);
      continue;
    }
    absl::StrAppend(&result, variable(name.c_str()));
    path = rest;
  }
  return result;
}

bool IsTrue(absl::string_view text) {
  const std::string upper = absl::AsciiStrToUpper(text);
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// A token goes into a header, so it is one word.
absl::Status CheckToken(const Settings& settings) {
  const std::string& token = settings.token;
  for (char c : token) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c)) && token.size() <= kMaxToken) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        settings.token_source, " does not hold a token of the hub: a token is one word, hf_…"));
  }
  return absl::OkStatus();
}

std::string FirstOf(const Variable& variable, std::initializer_list<const char*> names,
                    std::string* which = nullptr) {
  for (const char* name : names) {
    std::string value = Value(variable, name);
    if (value.empty()) continue;
    if (which != nullptr) *which = name;
    return value;
  }
  return "";
}

absl::Status ReadToken(const Variable& variable, const std::string& home, Settings& settings) {
  settings.token =
      FirstOf(variable, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}, &settings.token_source);
  if (settings.token.empty()) {
    std::string path = Expand(variable, Value(variable, "HF_TOKEN_PATH"));
    if (path.empty()) path = home + "/token";
    std::ifstream file(path, std::ios::binary);
    std::string text(kMaxToken + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    settings.token = std::move(text);
    settings.token_source = std::move(path);
  }
  settings.token = std::string(absl::StripAsciiWhitespace(settings.token));
  if (settings.token.empty()) settings.token_source.clear();
  return CheckToken(settings);
}

absl::Status ReadEndpoint(const Variable& variable, Settings& settings) {
  settings.endpoint = Value(variable, "HF_ENDPOINT");
  if (settings.endpoint.empty()) settings.endpoint = kPublicHub;
  while (absl::EndsWith(settings.endpoint, "/")) settings.endpoint.pop_back();
  const std::string& endpoint = settings.endpoint;
  const bool has_scheme =
      absl::StartsWith(endpoint, "https://") || absl::StartsWith(endpoint, "http://");
  bool is_clean = true;
  for (char c : endpoint) is_clean &= absl::ascii_isgraph(static_cast<unsigned char>(c)) != 0;
  if (has_scheme && is_clean && !absl::StrContains(endpoint, '?') &&
      !absl::StrContains(endpoint, '#')) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "HF_ENDPOINT=", endpoint, ": must be an address of http or https, such as ", kPublicHub));
}

absl::Status ReadTimeout(const Variable& variable, Settings& settings) {
  const std::string text = Value(variable, "HF_HUB_DOWNLOAD_TIMEOUT");
  if (text.empty()) return absl::OkStatus();
  int32_t seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds) || seconds < 1 || seconds > 86400) {
    return absl::InvalidArgumentError(absl::StrCat(
        "HF_HUB_DOWNLOAD_TIMEOUT=", text, ": must be a whole number of seconds, 1 to 86400"));
  }
  settings.timeout = absl::Seconds(seconds);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Settings> ReadSettings(const Variable& variable) {
  Settings settings;
  std::string home = Expand(variable, Value(variable, "HF_HOME"));
  if (home.empty()) {
    std::string base = Expand(variable, Value(variable, "XDG_CACHE_HOME"));
    if (base.empty()) base = Value(variable, "HOME") + "/.cache";
    home = base + "/huggingface";
  }
  settings.cache = Expand(variable, FirstOf(variable, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}));
  if (settings.cache.empty()) settings.cache = home + "/hub";
  settings.offline = IsTrue(FirstOf(variable, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
  TANDEM_RETURN_IF_ERROR(ReadToken(variable, home, settings));
  TANDEM_RETURN_IF_ERROR(ReadEndpoint(variable, settings));
  TANDEM_RETURN_IF_ERROR(ReadTimeout(variable, settings));
  return settings;
}

absl::StatusOr<Settings> SettingsFromEnvironment() {
  return ReadSettings([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace tandem::hub
