#include "model/files/json_fields.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"

namespace tandem::model {
namespace {

constexpr int kMaxDepth = 64;               // of nesting; real files have a few levels
constexpr int64_t kMaxJsonBytes = 4 << 20;  // real files have some kilobytes

}  // namespace

absl::StatusOr<base::JsonValue> ReadJsonObject(const std::filesystem::path& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string text,
                          gguf::ReadModelText(path.string(), kMaxJsonBytes));
  // Messages show the values that are wrong, and printing recurses.
  absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(text, kMaxDepth);
  if (absl::IsOutOfRange(json.status())) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is ", json.status().message()));
  }
  if (!json.ok() || !json->IsObject()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a JSON object"));
  }
  return json;
}

int Fields::Int(absl::string_view name, bool required, int fallback, int max) {
  if (!Present(name, required)) return fallback;
  const std::optional<int64_t> value = json_[name].Integer();
  if (!value.has_value() || *value < 1 || *value > max) {
    Problem(name, absl::StrCat("must be a whole number from 1 to ", max));
    return fallback;
  }
  return static_cast<int>(*value);
}

double Fields::Positive(absl::string_view name, bool required, double fallback) {
  if (!Present(name, required)) return fallback;
  const std::optional<double> value = json_[name].Number();
  if (!value.has_value() || !(*value > 0)) {
    Problem(name, "must be a number above 0");
    return fallback;
  }
  return *value;
}

std::vector<double> Fields::Positives(absl::string_view name, bool required) {
  std::vector<double> numbers;
  if (!Present(name, required)) return numbers;
  for (const base::JsonValue& element : json_[name].Elements()) {
    const std::optional<double> value = element.Number();
    if (value.has_value() && *value > 0) numbers.push_back(*value);
  }
  if (!json_[name].IsArray() || numbers.size() != json_[name].size()) {
    Problem(name, "must be a list of numbers above 0");
  }
  return numbers;
}

std::vector<std::string> Fields::Texts(absl::string_view name) {
  std::vector<std::string> texts;
  if (!Present(name, false)) return texts;
  for (const base::JsonValue& element : json_[name].Elements()) {
    texts.push_back(element.String().value_or(""));
  }
  if (!json_[name].IsArray()) Problem(name, "must be a list of strings");
  return texts;
}

std::vector<std::string> Fields::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : json_.Members()) {
    if (!value.IsNull() && read_->count(name) == 0) names.push_back(name);
  }
  return names;
}

bool Fields::Bool(absl::string_view name, bool fallback) {
  if (!Present(name, false)) return fallback;
  const std::optional<bool> value = json_[name].Bool();
  if (!value.has_value()) Problem(name, "must be true or false");
  return value.value_or(fallback);
}

std::string Fields::Text(absl::string_view name, bool required, const std::string& fallback) {
  if (!Present(name, required)) return fallback;
  const std::optional<std::string> value = json_[name].String();
  if (!value.has_value()) Problem(name, "must be a string");
  return value.value_or(fallback);
}

std::optional<Fields> Fields::Object(absl::string_view name) {
  if (!Present(name, false)) return std::nullopt;
  if (!json_[name].IsObject()) {
    Problem(name, "must be an object");
    return std::nullopt;
  }
  return Fields(json_[name], absl::StrCat(prefix_, name, "."), problems_);
}

void Fields::Problem(absl::string_view name, absl::string_view what) {
  const std::string value = json_.Has(name) ? base::Excerpt(json_[name].Dump()) : "missing";
  problems_.push_back(absl::StrCat(prefix_, name, " is ", value, ": ", what));
}

bool Fields::Present(absl::string_view name, bool required) {
  read_->emplace(name);
  if (Has(name)) return true;
  if (required) Problem(name, "this field is required");
  return false;
}

}  // namespace tandem::model
