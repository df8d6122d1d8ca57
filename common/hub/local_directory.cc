#include "common/hub/local_directory.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/hub/hub_name.h"
#include "common/hub/pull_process.h"

namespace tandem::hub {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "demo/targt" may be a name of the hub, or a path that is wrong.
absl::Status WithPathHint(const absl::Status& status, const std::string& value) {
  std::string text(status.message());
  const std::string owner = value.substr(0, value.find('/'));
  if (Exists(owner)) absl::StrAppend(&text, "; nor is ", value, " here, in the folder ", owner);
  return absl::Status(status.code(), text);
}

absl::Status NotHere(const std::string& value, const absl::Status& why, const std::string& then) {
  return WithPathHint(absl::NotFoundError(absl::StrCat(value, " is not in the cache (",
                                                       why.message(), "); ", then)),
                      value);
}

}  // namespace

absl::StatusOr<std::string> LocalDirectory(const std::string& value, Need need,
                                           const LocalDirectoryOptions& options) {
  if (value.empty() || Exists(value)) return value;
  const absl::StatusOr<HubName> name = ParseHubName(value);
  // Somebody who wrote a revision, a file or an address meant the hub.
  const bool is_meant = absl::StrContains(value, '@') || absl::StrContains(value, ':');
  // FOLDER/FILE.gguf is a path: whoever loads it says that it is not there.
  if (!is_meant && absl::EndsWith(value, ".gguf")) return value;
  if (!name.ok()) {
    if (is_meant && value.front() != '/' && value.front() != '.') return name.status();
    return value;
  }
  const RepositoryFolder repository(options.settings.cache, *name);
  absl::StatusOr<Snapshot> snapshot = FindSnapshot(repository, *name, need);
  if (snapshot.ok()) return snapshot->path;
  std::vector<std::string> words;
  words.emplace_back("pull");
  words.push_back(name->Text());
  if (need == Need::kTokenizer && name->file.empty()) words.emplace_back("--tokenizer-only");
  if (options.settings.offline) {
    return NotHere(value, snapshot.status(), "HF_HUB_OFFLINE forbids to pull it");
  }
  if (options.puller.empty()) {
    return NotHere(value, snapshot.status(),
                   absl::StrCat("run `tandem ", absl::StrJoin(words, " "),
                                "` with the same "
                                "HF_HOME first"));
  }
  options.say(absl::StrCat(value, " is not in the cache: pulling it"));
  if (const absl::Status pulled = RunPull(options.puller, words, options.say); !pulled.ok()) {
    return WithPathHint(pulled, value);
  }
  TANDEM_ASSIGN_OR_RETURN(snapshot, FindSnapshot(repository, *name, need));
  return snapshot->path;
}

absl::StatusOr<std::string> LocalDirectory(absl::string_view flag, const std::string& value,
                                           Need need) {
  absl::StatusOr<std::string> directory = value;
  if (!value.empty() && !Exists(value)) {
    LocalDirectoryOptions options;
    TANDEM_ASSIGN_OR_RETURN(options.settings, SettingsFromEnvironment());
    options.puller = TandemBeside();
    options.say = [](absl::string_view line) { TANDEM_LOG(kInfo) << line; };
    directory = LocalDirectory(value, need, options);
  }
  if (!directory.ok()) {
    return absl::Status(directory.status().code(),
                        absl::StrCat(flag, "=", value, ": ", directory.status().message()));
  }
  if (*directory != value) {
    TANDEM_LOG(kInfo)
        << base::LogFields("model_found").Add("name", value).Add("directory", *directory);
  }
  return directory;
}

}  // namespace tandem::hub
