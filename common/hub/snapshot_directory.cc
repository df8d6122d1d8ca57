#include "common/hub/snapshot_directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/hub/cache.h"

namespace tandem::hub {

absl::StatusOr<std::string> SnapshotDirectory(const std::string& directory) {
  namespace fs = std::filesystem;
  const RepositoryFolder repository{fs::path(directory)};
  const fs::path snapshots = repository.Snapshots();
  std::error_code ignored;
  if (fs::exists(repository.path() / "config.json", ignored) ||
      !fs::is_directory(snapshots, ignored)) {
    return directory;
  }
  const absl::StatusOr<std::string> main = repository.Commit("main");
  if (main.ok() && fs::is_directory(repository.Snapshot(*main), ignored)) {
    return repository.Snapshot(*main).string();
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() == 1) return repository.Snapshot(names[0]).string();
  if (names.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory,
                     " is a model's folder in the hub's cache, and has no snapshot: "
                     "download the model again"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      directory,
      " is a model's folder in the hub's cache, and none of its snapshots is main: give "
      "one of them, ",
      snapshots.string(), "/", absl::StrJoin(names, " or ")));
}

std::string ModelName(absl::string_view directory) {
  const std::vector<absl::string_view> parts = absl::StrSplit(directory, '/', absl::SkipEmpty());
  if (parts.empty() || parts.back() == "." || parts.back() == "..") return "";
  const size_t last = parts.size() - 1;
  const bool is_snapshot = last >= 2 && parts[last - 1] == "snapshots";
  for (const size_t i : {last, is_snapshot ? last - 2 : last}) {
    absl::string_view folder = parts[i];
    if (absl::ConsumePrefix(&folder, "models--") && !folder.empty()) {
      return absl::StrReplaceAll(folder, {{"--", "/"}});
    }
  }
  return std::string(parts.back());
}

}  // namespace tandem::hub
