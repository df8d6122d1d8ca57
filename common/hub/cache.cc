#include "common/hub/cache.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/json.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/gguf/parts.h"

namespace tandem::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;  // of JSON that others wrote
constexpr int64_t kMaxTreeBytes = 64 << 20;

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);  // false for a link to nothing
}

// All files of a commit, where a newer huggingface_hub wrote them down.
std::optional<std::set<std::string>> TreeFiles(const fs::path& path) {
  const absl::StatusOr<std::string> text = base::ReadRegularFile(path, kMaxTreeBytes);
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(*text, kMaxDepth);
  if (!json.ok() || (*json)["format_version"].Integer() != 1 || !(*json)["files"].IsObject()) {
    return std::nullopt;
  }
  std::set<std::string> files;
  for (const auto& [name, entry] : (*json)["files"].Members()) files.insert(name);
  return files;
}

// The weights that a snapshot lacks.
std::vector<std::string> MissingWeights(const fs::path& snapshot) {
  if (Exists(snapshot / kSingleWeights)) return {};
  const absl::StatusOr<std::string> index =
      base::ReadRegularFile(snapshot / kWeightIndex, kMaxIndexBytes);
  if (!index.ok()) return {absl::StrCat(kSingleWeights, " or ", kWeightIndex)};
  const absl::StatusOr<std::vector<std::string>> files = IndexedFiles(*index);
  if (!files.ok()) return {absl::StrCat(kWeightIndex, " that can be read")};
  std::vector<std::string> missing;
  for (const std::string& file : *files) {
    if (!Exists(snapshot / file)) missing.push_back(file);
  }
  return missing;
}

// The first few, and how many more.
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text =
      absl::StrJoin(names.begin(), names.begin() + std::min(names.size(), kShown), ", ");
  if (names.size() > kShown) absl::StrAppend(&text, " and ", names.size() - kShown, " more");
  return text;
}

absl::Status Lacks(const fs::path& snapshot, const std::vector<std::string>& missing) {
  return absl::NotFoundError(absl::StrCat(snapshot.string(), " lacks ", Some(missing)));
}

}  // namespace

RepositoryFolder::RepositoryFolder(const std::string& cache, const HubName& name)
    : folder_(fs::path(cache) /
              absl::StrCat("models--", absl::StrReplaceAll(name.repository, {{"/", "--"}}))) {}

fs::path RepositoryFolder::Blob(absl::string_view etag) const {
  return folder_ / "blobs" / std::string(etag);
}
fs::path RepositoryFolder::Snapshots() const { return folder_ / "snapshots"; }
fs::path RepositoryFolder::Snapshot(absl::string_view commit) const {
  return Snapshots() / std::string(commit);
}
fs::path RepositoryFolder::Ref(absl::string_view revision) const {
  return folder_ / "refs" / std::string(revision);
}
fs::path RepositoryFolder::NoExist(absl::string_view commit, absl::string_view file) const {
  return folder_ / ".no_exist" / std::string(commit) / std::string(file);
}
fs::path RepositoryFolder::Tree(absl::string_view commit) const {
  return folder_ / "trees" / absl::StrCat(commit, ".json");
}
fs::path RepositoryFolder::Lock(absl::string_view etag) const {
  return folder_.parent_path() / ".locks" / folder_.filename() / absl::StrCat(etag, ".lock");
}

absl::StatusOr<std::string> RepositoryFolder::Commit(absl::string_view revision) const {
  if (IsCommit(revision)) return std::string(revision);
  const absl::StatusOr<std::string> text = base::ReadRegularFile(Ref(revision), 256);
  if (text.ok()) {
    std::string commit(absl::StripAsciiWhitespace(*text));
    if (IsCommit(commit)) return commit;
  }
  if (!Exists(folder_)) {
    return absl::NotFoundError(absl::StrCat("there is no ", folder_.string()));
  }
  std::vector<std::string> known;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "refs", error)) {
    if (entry.is_regular_file(error)) {
      known.push_back(fs::relative(entry.path(), folder_ / "refs", error).string());
    }
  }
  std::sort(known.begin(), known.end());
  return absl::NotFoundError(
      absl::StrCat(folder_.string(), " does not know the revision ", revision,
                   known.empty() ? "" : absl::StrCat("; it knows ", Some(known))));
}

absl::StatusOr<Snapshot> FindSnapshot(const RepositoryFolder& repository, const HubName& name,
                                      Need need) {
  TANDEM_ASSIGN_OR_RETURN(const std::string commit, repository.Commit(name.revision));
  const fs::path snapshot = repository.Snapshot(commit);
  std::vector<std::string> missing;
  if (!name.file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> parts, gguf::PartsOf(name.file));
    for (const std::string& part : parts) {
      if (!Exists(snapshot / part)) missing.push_back(part);
    }
    if (missing.empty()) return hub::Snapshot{(snapshot / name.file).string(), commit};
    return Lacks(snapshot, missing);
  }
  if (!Exists(snapshot / "tokenizer.json")) missing.push_back("tokenizer.json");
  if (need == Need::kModel) {
    if (!Exists(snapshot / "config.json")) missing.push_back("config.json");
    for (std::string& file : MissingWeights(snapshot)) missing.push_back(std::move(file));
  }
  for (const char* file : OptionalFiles(need)) {
    if (Exists(snapshot / file) || Exists(repository.NoExist(commit, file))) continue;
    const std::optional<std::set<std::string>> files = TreeFiles(repository.Tree(commit));
    if (files.has_value() && files->count(file) == 0) continue;
    missing.push_back(file);
  }
  if (!missing.empty()) return Lacks(snapshot, missing);
  return hub::Snapshot{snapshot.string(), commit};
}

}  // namespace tandem::hub
