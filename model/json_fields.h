// Reads the JSON files of a model's directory. For model/*.cc alone.
//
// Thread safety: plain values.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"

namespace tandem::model {

// NOT_FOUND: it cannot be read. INVALID_ARGUMENT: it is no JSON object, or nested too deep.
absl::StatusOr<base::JsonValue> ReadJsonObject(const std::filesystem::path& path);

// Reads fields and collects what is wrong with them.
class Fields {
 public:
  Fields(base::JsonValue json, std::string prefix, std::vector<std::string>& problems)
      : json_(std::move(json)), prefix_(std::move(prefix)), problems_(problems) {}

  bool Has(absl::string_view name) const { return !json_[name].IsNull(); }

  int Int(absl::string_view name, bool required, int fallback, int max = 1 << 24);
  double Positive(absl::string_view name, bool required, double fallback);
  bool Bool(absl::string_view name, bool fallback);
  std::string Text(absl::string_view name, bool required, const std::string& fallback);

  void Problem(absl::string_view name, absl::string_view what);

 private:
  bool Present(absl::string_view name, bool required);

  const base::JsonValue json_;
  const std::string prefix_;
  std::vector<std::string>& problems_;
};

}  // namespace tandem::model
