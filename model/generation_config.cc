#include "model/generation_config.h"

#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/sampling/parameters.h"
#include "model/files/json_fields.h"

namespace tandem::model {
namespace {

struct Range {
  double min = 0;
  bool above = false;  // `min` itself is outside
  double max = 1;
};

std::optional<double> ReadNumber(const base::JsonValue& json, const char* name, const Range& range,
                                 Fields& fields) {
  if (!fields.Has(name)) return std::nullopt;
  if (const std::optional<double> value = json[name].Number(); value.has_value()) {
    const double number = static_cast<float>(*value);
    const bool high_enough = range.above ? number > range.min : number >= range.min;
    if (high_enough && number <= range.max) return number;
  }
  fields.Problem(name, absl::StrCat("must be a number ", range.above ? "above " : "from ",
                                    range.min, range.above ? ", to " : " to ", range.max));
  return std::nullopt;
}

std::optional<uint32_t> ReadTopK(const base::JsonValue& json, Fields& fields) {
  constexpr int64_t kMax = 1 << 24;
  if (!fields.Has("top_k")) return std::nullopt;
  const std::optional<int64_t> value = json["top_k"].Integer();
  if (value.has_value() && *value >= 0 && *value <= kMax) return static_cast<uint32_t>(*value);
  fields.Problem("top_k", absl::StrCat("must be a whole number from 0 (all tokens) to ", kMax));
  return std::nullopt;
}

}  // namespace

absl::StatusOr<SamplingDefaults> ReadSamplingDefaults(const std::string& directory) {
  const std::filesystem::path path = std::filesystem::path(directory) / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return SamplingDefaults();
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue json, ReadJsonObject(path));
  std::vector<std::string> problems;
  Fields fields(json, "", problems);
  SamplingDefaults defaults;
  defaults.temperature =
      ReadNumber(json, "temperature", {0, false, sampling::kMaxTemperature}, fields);
  if (!fields.Bool("do_sample", true)) defaults.temperature = 0;
  defaults.top_k = ReadTopK(json, fields);
  defaults.top_p = ReadNumber(json, "top_p", {0, true, 1}, fields);
  defaults.min_p = ReadNumber(json, "min_p", {0, false, 1}, fields);
  defaults.repetition_penalty =
      ReadNumber(json, "repetition_penalty", {0, true, sampling::kMaxRepetitionPenalty}, fields);
  if (problems.empty()) return defaults;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ", absl::StrJoin(problems, "; ")));
}

}  // namespace tandem::model
