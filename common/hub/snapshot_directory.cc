#include "common/base/hub_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::base {

absl::StatusOr<std::string> SnapshotDirectory(const std::string& directory) {
  namespace fs = std::filesystem;
  const fs::path folder(directory);
  const fs::path snapshots = folder / "snapshots";
  std::error_code ignored;
  if (fs::exists(folder / "config.json", ignored) || !fs::is_directory(snapshots, ignored)) {
    return directory;
  }
  std::string main;
  std::ifstream(folder / "refs" / "main") >> main;
  if (!main.empty() && main.find('/') == std::string::npos &&
      fs::is_directory(snapshots / main, ignored)) {
    return (snapshots / main).string();
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() == 1) return (snapshots / names[0]).string();
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

}  // namespace tandem::base
