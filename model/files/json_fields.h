// Reads the JSON files of a model's directory. For model/ alone.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"

namespace tandem::model {

// Errors as base::ReadRegularFile tells them. INVALID_ARGUMENT: it is not a JSON object, or nested
// too deep.
absl::StatusOr<base::JsonValue> ReadJsonObject(const std::filesystem::path& path);

// The fields of a JSON object. Reads them one by one and collects what is wrong with them, so that
// one message can name it all. A field that is null counts as missing. A reader that meets a
// problem gives its fallback.
//
// Thread safety: none. Refers to `problems`, which must outlive it.
class Fields {
 public:
  // `prefix` stands before the name of a field in a message.
  Fields(base::JsonValue json, std::string prefix, std::vector<std::string>& problems)
      : json_(std::move(json)), prefix_(std::move(prefix)), problems_(problems) {}

  bool Has(absl::string_view name) const { return !json_[name].IsNull(); }
  bool IsNull(absl::string_view name) const { return json_.Has(name) && json_[name].IsNull(); }
  base::JsonValue operator[](absl::string_view name) const {
    read_->emplace(name);
    return json_[name];
  }
  // The names of the fields that are there, not null, and were not read.
  std::vector<std::string> Unread() const;

  int Int(absl::string_view name, bool required, int fallback, int max = 1 << 24);  // from 1 on
  double Positive(absl::string_view name, bool required, double fallback);
  // All of them above 0; empty where the list is missing.
  std::vector<double> Positives(absl::string_view name, bool required);
  bool Bool(absl::string_view name, bool fallback);
  std::string Text(absl::string_view name, bool required, const std::string& fallback);
  std::vector<std::string> Texts(absl::string_view name);  // empty where the list is missing

  // The fields of an object inside this one; what is wrong with them is collected here, too. Absent
  // where it is missing, and where it is something else, which is a problem.
  std::optional<Fields> Object(absl::string_view name);

  // Collects "<prefix><name> is <value>: <what>".
  void Problem(absl::string_view name, absl::string_view what);

 private:
  bool Present(absl::string_view name, bool required);  // counts as reading

  const base::JsonValue json_;
  const std::string prefix_;
  std::vector<std::string>& problems_;
  std::shared_ptr<std::set<std::string, std::less<>>> read_ =
      std::make_shared<std::set<std::string, std::less<>>>();
};

}  // namespace tandem::model
