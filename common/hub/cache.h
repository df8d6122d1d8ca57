// The cache folder of huggingface_hub, as that library lays it out:
//
//   CACHE/models--OWNER--NAME/blobs/ETAG               contents, named by their hashes
//                            /snapshots/COMMIT/FILE    relative links to blobs
//                            /refs/REVISION            the commit that a branch or tag stood for
//                            /.no_exist/COMMIT/FILE    empty: this commit has no such file
//                            /trees/COMMIT.json        all files of the commit (newer versions)
//   CACHE/.locks/models--OWNER--NAME/ETAG.lock         flock while a blob is downloaded
//
// This looks things up and writes nothing (client/pull does).
//
// Thread safety: plain values, and functions that read files. Other processes may add to the cache
// meanwhile: what is there is whole, because files get their names when they are.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/hub/hub_name.h"
#include "common/hub/repository_files.h"

namespace tandem::hub {

// The paths of one repository.
class RepositoryFolder {
 public:
  // `cache`: Settings::cache.
  RepositoryFolder(const std::string& cache, const HubName& name);
  // Of a folder models--OWNER--NAME itself, wherever it is.
  explicit RepositoryFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path Blob(absl::string_view etag) const;
  std::filesystem::path Snapshots() const;  // the folder of all
  std::filesystem::path Snapshot(absl::string_view commit) const;
  std::filesystem::path Ref(absl::string_view revision) const;
  std::filesystem::path NoExist(absl::string_view commit, absl::string_view file) const;
  std::filesystem::path Tree(absl::string_view commit) const;
  std::filesystem::path Lock(absl::string_view etag) const;

  // The commit that a revision stands for in this cache: itself, or what refs/ says. NOT_FOUND:
  // this cache does not know the revision; the error names those that it knows.
  absl::StatusOr<std::string> Commit(absl::string_view revision) const;

 private:
  std::filesystem::path folder_;
};

struct Snapshot {
  std::string path;  // a directory, or the GGUF file in it that the name says
  std::string commit;
};

// The snapshot of a name's revision, if all required files are in it: the file and its parts where
// the name says one, which `need` says nothing of. Of optional files (those of which a
// model may have none: generation_config.json, tokenizer_config.json) it must be known whether the
// repository has them, for a model without its generation_config.json would end its texts
// elsewhere. NOT_FOUND says what is missing.
absl::StatusOr<Snapshot> FindSnapshot(const RepositoryFolder& repository, const HubName& name,
                                      Need need);

}  // namespace tandem::hub
