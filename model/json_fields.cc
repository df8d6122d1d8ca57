#include "model/json_fields.h"

#include <fstream>

#include "absl/status/status.h"

namespace tandem::model {
namespace {

constexpr int kMostDepth = 64;  // of nesting; real files have a few levels

}  // namespace

absl::StatusOr<Json> ReadJsonObject(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path.string()));
  // Messages show the values that are wrong, and printing recurses.
  bool too_deep = false;
  Json json = Json::parse(
      file,
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kMostDepth;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " is nested more than ", kMostDepth, " levels deep"));
  }
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a JSON object"));
  }
  return json;
}

}  // namespace tandem::model
