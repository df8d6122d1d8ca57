#include "client/pull/pull.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/pull/blob_download.h"
#include "client/pull/hub_client.h"
#include "client/pull/wanted_files.h"
#include "common/base/output_file.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/hub/repository_files.h"

namespace tandem::client {
namespace {

namespace fs = std::filesystem;
using hub::HubName;
using hub::Need;
using hub::RepositoryFolder;
using hub::Settings;
using hub::Snapshot;

constexpr int64_t kSpareBytes = int64_t{64} << 20;  // of the disk, beyond the files

absl::Status OfCache(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; HF_HOME says where the cache is"));
}

absl::Status MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? OfCache(base::CannotWrite(path.string(), error.value())) : absl::OkStatus();
}

// The cache's own files are replaced.
absl::Status PlaceText(const fs::path& path, const std::string& text) {
  TANDEM_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  return OfCache(base::WriteFile(path.string(), text, base::Existing::kReplace));
}

// As huggingface_hub does: a relative link, so that the cache may be moved.
absl::Status PlaceLink(const RepositoryFolder& folder, const std::string& commit,
                       const RemoteFile& file) {
  const fs::path link = folder.Snapshot(commit) / file.name;
  const fs::path target = folder.Blob(file.etag).lexically_relative(link.parent_path());
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(MakeFolder(link.parent_path()));
  const fs::path other = absl::StrCat(link.string(), ".", getpid(), ".tmp");
  fs::remove(other, error);
  fs::create_symlink(target, other, error);
  if (!error) fs::rename(other, link, error);
  return error ? OfCache(base::CannotWrite(link.string(), error.value())) : absl::OkStatus();
}

// Programs that back folders up leave out what has this file (bford.info/cachedir).
absl::Status MarkAsCache(const fs::path& cache) {
  const fs::path tag = cache / "CACHEDIR.TAG";
  std::error_code error;
  if (fs::exists(tag, error)) return absl::OkStatus();
  return PlaceText(tag, "Signature: 8a477f597d28d172789f06886806bc55\n");
}

absl::Status CheckRoom(const RepositoryFolder& folder, int64_t bytes) {
  struct statvfs disk;
  if (bytes == 0 || statvfs(folder.path().c_str(), &disk) != 0) return absl::OkStatus();
  const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  if (free - kSpareBytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%.1f GB are to be downloaded to %s, where %.1f GB are free: make room, or set HF_HOME to a "
      "folder on a larger disk",
      static_cast<double>(bytes) / 1e9, folder.path().string(), static_cast<double>(free) / 1e9));
}

// One pull of one revision. Thread safety: one thread.
class Puller {
 public:
  Puller(const Settings& settings, const HubName& name, Need need, PullObserver& observer)
      : settings_(settings),
        name_(name),
        need_(need),
        observer_(observer),
        folder_(settings.cache, name),
        client_(settings, name) {}

  absl::StatusOr<Snapshot> Pull(const RemoteRevision& revision) {
    const bool is_gguf = !name_.file.empty();
    const absl::StatusOr<std::vector<std::string>> wanted =
        is_gguf ? WantedGguf(revision.files, name_.file) : WantedFiles(revision.files, need_);
    if (!wanted.ok()) return OfRepository(wanted.status());
    TANDEM_RETURN_IF_ERROR(MakeFolder(folder_.Blob("").parent_path()));
    TANDEM_RETURN_IF_ERROR(MakeFolder(folder_.Lock("").parent_path()));
    TANDEM_RETURN_IF_ERROR(MarkAsCache(settings_.cache));
    std::vector<RemoteFile> files;
    TANDEM_RETURN_IF_ERROR(Describe(revision.commit, *wanted, files));
    if (!is_gguf && need_ == Need::kModel) {
      TANDEM_RETURN_IF_ERROR(DescribeWeights(revision, files));
    }
    TANDEM_RETURN_IF_ERROR(Download(revision.commit, files));
    for (const char* file : hub::OptionalFiles(need_)) {
      if (is_gguf) break;
      bool is_there = false;
      for (const RemoteFile& one : files) is_there |= one.name == file;
      if (!is_there) TANDEM_RETURN_IF_ERROR(PlaceText(folder_.NoExist(revision.commit, file), ""));
    }
    TANDEM_RETURN_IF_ERROR(PlaceRef(revision.commit));
    return FindSnapshot(folder_, name_.At(revision.commit), need_);
  }

  absl::StatusOr<RemoteRevision> Ask(int max_failures) {
    return client_.Revision(max_failures, note_);
  }

  absl::Status PlaceRef(const std::string& commit) {
    if (name_.revision == commit) return absl::OkStatus();
    const absl::StatusOr<std::string> now = folder_.Commit(name_.revision);
    if (now.ok() && *now == commit) return absl::OkStatus();
    return PlaceText(folder_.Ref(name_.revision), commit);
  }

  const RepositoryFolder& folder() const { return folder_; }

 private:
  absl::Status OfRepository(const absl::Status& status) const {
    return absl::Status(status.code(), absl::StrCat(name_.Text(), ": ", status.message()));
  }

  absl::Status Describe(const std::string& commit, const std::vector<std::string>& names,
                        std::vector<RemoteFile>& files) {
    for (const std::string& name : names) {
      TANDEM_ASSIGN_OR_RETURN(RemoteFile file, client_.File(commit, name, note_));
      files.push_back(std::move(file));
    }
    return absl::OkStatus();
  }

  // What an index names is known once the index is here.
  absl::Status DescribeWeights(const RemoteRevision& revision, std::vector<RemoteFile>& files) {
    std::string index;
    for (const RemoteFile& file : files) {
      if (file.name != hub::kWeightIndex) continue;
      if (file.size > hub::kMaxIndexBytes) {
        return OfRepository(absl::FailedPreconditionError(
            absl::StrCat(file.name, " has ", file.size, " bytes: that is not an index")));
      }
      TANDEM_RETURN_IF_ERROR(CheckRoom(folder_, file.size));
      TANDEM_RETURN_IF_ERROR(DownloadBlob(client_, revision.commit, file, folder_, silent_));
      TANDEM_ASSIGN_OR_RETURN(
          index, base::ReadRegularFile(folder_.Blob(file.etag).string(), hub::kMaxIndexBytes));
    }
    const absl::StatusOr<std::vector<std::string>> weights = WantedWeights(revision.files, index);
    if (!weights.ok()) return OfRepository(weights.status());
    return Describe(revision.commit, *weights, files);
  }

  absl::Status Download(const std::string& commit, const std::vector<RemoteFile>& files) {
    int64_t bytes = 0, held = 0;
    for (const RemoteFile& file : files) {
      if (__builtin_add_overflow(bytes, file.size, &bytes)) {
        return OfRepository(absl::FailedPreconditionError(
            absl::StrCat("its files have more than ", INT64_MAX, " bytes together, says the hub")));
      }
      held += BytesHeld(folder_, file);
    }
    TANDEM_RETURN_IF_ERROR(CheckRoom(folder_, bytes - held));
    observer_.OnPlan(static_cast<int>(files.size()), bytes, held);
    for (const RemoteFile& file : files) {
      observer_.OnFile(file.name, file.size);
      TANDEM_RETURN_IF_ERROR(DownloadBlob(client_, commit, file, folder_, observer_));
      TANDEM_RETURN_IF_ERROR(PlaceLink(folder_, commit, file));
    }
    return absl::OkStatus();
  }

  // The index is downloaded before it is known how much there is to do.
  class Silent : public PullObserver {
   public:
    void OnPlan(int, int64_t, int64_t) override {}
    void OnFile(const std::string&, int64_t) override {}
    void OnBytes(int64_t) override {}
    void OnNote(const std::string&) override {}
  };

  const Settings& settings_;
  const HubName name_;
  const Need need_;
  PullObserver& observer_;
  const RepositoryFolder folder_;
  HubClient client_;
  Silent silent_;
  const std::function<void(const std::string&)> note_ = [this](const std::string& text) {
    observer_.OnNote(text);
  };
};

}  // namespace

absl::StatusOr<Snapshot> Pull(const Settings& settings, const HubName& name, Need need,
                              PullObserver& observer) {
  Puller puller(settings, name, need, observer);
  absl::StatusOr<Snapshot> cached = FindSnapshot(puller.folder(), name, need);
  if (cached.ok() && hub::IsCommit(name.revision)) return cached;
  if (settings.offline) {
    if (cached.ok()) return cached;
    return absl::NotFoundError(absl::StrCat(name.Text(), " is not in the cache (",
                                            cached.status().message(),
                                            "), and HF_HUB_OFFLINE forbids to pull it"));
  }
  absl::StatusOr<RemoteRevision> revision = puller.Ask(cached.ok() ? 2 : kMaxFailures);
  if (!revision.ok()) {
    if (!cached.ok() || !MayRetry(revision.status())) return revision.status();
    observer.OnNote(absl::StrCat(revision.status().message(),
                                 "; taking what the cache has, commit ", cached->commit));
    return cached;
  }
  // The same commit as before, and all of it is here: nothing is written, for the cache may be
  // read-only.
  absl::StatusOr<Snapshot> same = FindSnapshot(puller.folder(), name.At(revision->commit), need);
  if (same.ok() && cached.ok() && cached->commit == same->commit) return same;
  return puller.Pull(*revision);
}

}  // namespace tandem::client
