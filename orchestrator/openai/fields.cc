#include "orchestrator/openai/fields.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/flags/nearest_name.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {

std::optional<base::JsonValue> Fields::Any(absl::string_view name) {
  asked_.emplace(name);
  base::JsonValue value = object_[name];
  if (value.IsNull()) return std::nullopt;
  return value;
}

std::optional<bool> Fields::Bool(absl::string_view name) {
  const auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  const std::optional<bool> flag = value->Bool();
  if (!flag.has_value()) Fail(name, "is neither true nor false");
  return flag;
}

std::optional<double> Fields::Number(absl::string_view name) {
  const auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  const std::optional<double> number = value->Number();
  if (!number.has_value()) Fail(name, "is not a number");
  return number;
}

std::optional<uint64_t> Fields::Unsigned(absl::string_view name, uint64_t min, uint64_t max) {
  const auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  const std::optional<uint64_t> number = value->Unsigned();
  if (number.has_value() && *number >= min && *number <= max) return number;
  Fail(name, absl::StrCat("is not a whole number from ", min, " to ", max));
  return std::nullopt;
}

std::optional<std::string> Fields::Text(absl::string_view name) {
  const auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  std::optional<std::string> text = value->String();
  if (!text.has_value()) Fail(name, "is not a string");
  return text;
}

std::optional<std::vector<uint32_t>> Fields::Ids(absl::string_view name) {
  const auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  std::optional<std::vector<uint32_t>> ids = TokenIds(*value);
  if (!ids.has_value()) Fail(name, "is not a list of token ids");
  return ids;
}

std::optional<base::JsonValue> Fields::Object(absl::string_view name) {
  auto value = Any(name);
  if (!value.has_value()) return std::nullopt;
  if (value->IsObject()) return value;
  Fail(name, "is not an object");
  return std::nullopt;
}

void Fields::Inert(std::initializer_list<absl::string_view> names) {
  for (absl::string_view name : names) asked_.emplace(name);
}

void Fields::Refuse(std::initializer_list<absl::string_view> names, absl::string_view otherwise) {
  for (absl::string_view name : names) {
    refused_.emplace(name);
    if (object_[name].IsNull()) continue;
    Fail(name, absl::StrCat("is not served", otherwise.empty() ? "" : ": ", otherwise));
  }
}

void Fields::Only(absl::string_view name, bool value) {
  const std::optional<bool> given = Bool(name);
  if (given.has_value() && *given != value) {
    Fail(name, absl::StrCat("is served only as ", value ? "true" : "false"));
  }
}

void Fields::Fail(absl::string_view name, absl::string_view what) {
  const std::string field = absl::StrCat(prefix_, name);
  Keep(FieldError(field, absl::StrCat(field, " ", what)));
}

void Fields::Keep(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Fields::Missing(absl::string_view name, absl::string_view what) {
  const std::string field = absl::StrCat(prefix_, name);
  if (missing_.ok()) missing_ = FieldError(field, absl::StrCat(field, " ", what));
}

void Fields::Suggest(const Fields& other) {
  for (const std::string& name : other.asked_) elsewhere_.emplace(name, other.prefix_ + name);
}

std::string Fields::NearestTo(absl::string_view name) const {
  std::vector<std::string> names(asked_.begin(), asked_.end());
  for (const auto& [other, path] : elsewhere_) names.push_back(other);
  const std::string nearest = flags::NearestName(name, names);
  if (nearest.empty() || asked_.find(nearest) != asked_.end()) {
    return nearest.empty() ? nearest : prefix_ + nearest;
  }
  return elsewhere_.at(nearest);
}

absl::Status Fields::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : object_.Members()) {
    if (asked_.count(name) + refused_.count(name) > 0 || value.IsNull()) continue;
    const std::string shown = name.substr(0, kMaxShownName);
    const std::string field = absl::StrCat(prefix_, shown);
    const std::string nearest = NearestTo(shown);
    const std::string hint =
        nearest.empty() ? "" : absl::StrCat(" (did you mean '", nearest, "'?)");
    status_ = FieldError(field, absl::StrCat("unknown parameter '", field, "'", hint),
                         "unknown_parameter");
    return status_;
  }
  status_ = missing_;
  return status_;
}

std::optional<std::vector<uint32_t>> TokenIds(const base::JsonValue& value) {
  if (!value.IsArray()) return std::nullopt;
  std::vector<uint32_t> ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const std::optional<uint64_t> id = value[i].Unsigned();
    if (!id.has_value() || *id > std::numeric_limits<uint32_t>::max()) return std::nullopt;
    ids.push_back(static_cast<uint32_t>(*id));
  }
  return ids;
}

}  // namespace tandem::orchestrator
