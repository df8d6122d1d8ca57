#include "common/tokenizer/around_text.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::tokenizer {
namespace {

constexpr int kMaxDepth = 64;  // of nesting; real files have a few levels
constexpr absl::string_view kReadingClasses[] = {"LlamaTokenizer", "LlamaTokenizerFast",
                                                 "CodeLlamaTokenizer", "CodeLlamaTokenizerFast"};

// Absent: the field is not there, or null.
absl::StatusOr<std::optional<bool>> ReadFlag(const base::JsonValue& json, const char* name) {
  const base::JsonValue value = json[name];
  if (value.IsNull()) return std::optional<bool>();
  if (value.Bool().has_value()) return value.Bool();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", base::Excerpt(value.Dump()), ": must be true or false"));
}

// "bos_token" is a text or an object with the text as "content". A field that is not there is as
// the class has it.
absl::StatusOr<std::string> ReadToken(const base::JsonValue& json, const char* name,
                                      const char* fallback, const char* asked_by) {
  if (!json.Has(name)) return std::string(fallback);
  const base::JsonValue value = json[name];
  const std::optional<std::string> token =
      value.IsObject() ? value["content"].String() : value.String();
  if (token.has_value() && !token->empty()) return *token;
  return absl::InvalidArgumentError(absl::StrCat(asked_by, " is true, but ", name, " is ",
                                                 base::Excerpt(value.Dump()),
                                                 ": must be a token's text"));
}

}  // namespace

absl::StatusOr<std::optional<AroundText>> ReadAroundText(absl::string_view tokenizer_config) {
  const absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(tokenizer_config, kMaxDepth);
  if (!json.ok() || !json->IsObject()) return absl::InvalidArgumentError("is not a JSON object");
  TANDEM_ASSIGN_OR_RETURN(const std::optional<bool> before, ReadFlag(*json, "add_bos_token"));
  TANDEM_ASSIGN_OR_RETURN(const std::optional<bool> after, ReadFlag(*json, "add_eos_token"));
  const std::string name = (*json)["tokenizer_class"].String().value_or("");
  const bool reads = std::find(std::begin(kReadingClasses), std::end(kReadingClasses), name) !=
                     std::end(kReadingClasses);
  if (!reads || (!before.has_value() && !after.has_value())) return std::optional<AroundText>();
  AroundText around;
  if (before.value_or(true)) {
    TANDEM_ASSIGN_OR_RETURN(around.before, ReadToken(*json, "bos_token", "<s>", "add_bos_token"));
  }
  if (after.value_or(false)) {
    TANDEM_ASSIGN_OR_RETURN(around.after, ReadToken(*json, "eos_token", "</s>", "add_eos_token"));
  }
  return std::optional<AroundText>(around);
}

}  // namespace tandem::tokenizer
