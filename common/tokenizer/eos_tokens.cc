#include "common/tokenizer/eos_tokens.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"

namespace tandem::tokenizer {
namespace {

constexpr int kMaxEosDepth = 64;  // of nesting; real files have a few levels

}  // namespace

absl::StatusOr<std::string> ReadEosToken(absl::string_view json) {
  const absl::StatusOr<base::JsonValue> object = base::JsonValue::Parse(json, kMaxEosDepth);
  if (!object.ok() || !object->IsObject()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  const base::JsonValue value = (*object)["eos_token"];
  if (value.IsNull()) return std::string();
  std::optional<std::string> name = value.IsObject() ? value["content"].String() : value.String();
  if (name.has_value()) return *std::move(name);
  return absl::InvalidArgumentError(absl::StrCat("eos_token is ", base::Excerpt(value.Dump()),
                                                 ": must be a token's text, or an object with it "
                                                 "as \"content\""));
}

}  // namespace tandem::tokenizer
