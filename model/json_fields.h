// Reads JSON files of a model's directory. For model/*.cc alone: it brings the JSON library with it.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace tandem::model {

using Json = nlohmann::json;

// NOT_FOUND: it cannot be read. INVALID_ARGUMENT: it is no JSON object, or nested too deep.
absl::StatusOr<Json> ReadJsonObject(const std::filesystem::path& path);

// Reads fields and collects what is wrong with them.
class Fields {
 public:
  Fields(const Json& json, std::string prefix, std::vector<std::string>& problems)
      : json_(json), prefix_(std::move(prefix)), problems_(problems) {}

  bool Has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }

  int Int(const char* name, bool required, int fallback, int most = 1 << 24) {
    if (!Present(name, required)) return fallback;
    const Json& value = json_[name];
    if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > most) {
      Problem(name, absl::StrCat("must be a whole number from 1 to ", most));
      return fallback;
    }
    return value.get<int>();
  }

  double Positive(const char* name, bool required, double fallback) {
    if (!Present(name, required)) return fallback;
    if (!json_[name].is_number() || !(json_[name].get<double>() > 0)) {
      Problem(name, "must be a number above 0");
      return fallback;
    }
    return json_[name].get<double>();
  }

  bool Bool(const char* name, bool fallback) {
    if (!Present(name, false)) return fallback;
    if (!json_[name].is_boolean()) {
      Problem(name, "must be true or false");
      return fallback;
    }
    return json_[name].get<bool>();
  }

  std::string Text(const char* name, bool required, const std::string& fallback) {
    if (!Present(name, required)) return fallback;
    if (!json_[name].is_string()) {
      Problem(name, "must be a string");
      return fallback;
    }
    return json_[name].get<std::string>();
  }

  void Problem(const char* name, const std::string& what) {
    std::string value = json_.contains(name) ? json_[name].dump() : "missing";
    problems_.push_back(absl::StrCat(prefix_, name, " is ", value, ": ", what));
  }

 private:
  bool Present(const char* name, bool required) {
    if (Has(name)) return true;
    if (required) Problem(name, "this field is needed");
    return false;
  }

  const Json& json_;
  const std::string prefix_;
  std::vector<std::string>& problems_;
};

}  // namespace tandem::model
