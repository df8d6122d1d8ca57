#include "common/hub/repository_files.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::hub {
namespace {

constexpr int kMaxIndexDepth = 16;

// A name that stays in its folder, whatever wrote the index.
bool IsShard(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") && name.size() <= 255 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_.", c);
         });
}

}  // namespace

absl::Span<const char* const> OptionalFiles(Need need) {
  static constexpr const char* kFiles[] = {"tokenizer_config.json", "generation_config.json"};
  return absl::MakeConstSpan(kFiles).first(need == Need::kModel ? 2 : 1);
}

absl::StatusOr<std::vector<std::string>> IndexedFiles(absl::string_view text) {
  const absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(text, kMaxIndexDepth);
  if (!json.ok() || !(*json)["weight_map"].IsObject() || (*json)["weight_map"].size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(kWeightIndex, " has no weight_map"));
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : (*json)["weight_map"].Members()) {
    const std::string name = file.String().value_or("");
    if (name.empty() || !IsShard(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWeightIndex, " says that ", tensor, " is in '", name,
                       "', which is no *.safetensors of the same folder"));
    }
    files.insert(name);
  }
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace tandem::hub
