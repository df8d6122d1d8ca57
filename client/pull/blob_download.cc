#include "client/pull/blob_download.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/pull/digest.h"
#include "client/pull/file_lock.h"
#include "common/base/output_file.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const fs::path& path) { return base::CannotWrite(path.string(), errno); }

constexpr int64_t kMinProgressBytes = 64 << 10;

// -1: there is none.
int64_t SizeOf(const fs::path& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 ? status.st_size : -1;
}

fs::path Incomplete(const fs::path& blob) { return blob.string() + ".incomplete"; }

// The file that grows, and its hash. Thread safety: one thread.
class Part {
 public:
  // Takes what an earlier download left.
  static absl::StatusOr<Part> Open(const fs::path& path, const RemoteFile& file) {
    TANDEM_RETURN_IF_ERROR(base::CheckOutput(path.string(), base::Existing::kReplace));
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor < 0) return Failed(path);
    absl::StatusOr<Digest> digest = Digest::For(file.etag, file.size);
    if (!digest.ok()) {
      close(descriptor);
      return digest.status();
    }
    Part part(descriptor, path, file, *std::move(digest));
    TANDEM_RETURN_IF_ERROR(part.ReadWhatIsThere());
    return part;
  }
  Part(Part&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        path_(std::move(other.path_)),
        file_(other.file_),
        digest_(std::move(other.digest_)),
        size_(other.size_) {}
  Part& operator=(Part&&) = delete;
  ~Part() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int64_t size() const { return size_; }
  bool IsWhole() const { return size_ == file_.size; }
  bool Matches() { return digest_.Matches(); }

  absl::Status Add(absl::string_view bytes) {
    if (static_cast<int64_t>(bytes.size()) > file_.size - size_) {
      return absl::DataLossError(absl::StrCat("the hub sends more of ", file_.name, " than the ",
                                              file_.size, " bytes that it has"));
    }
    digest_.Add(bytes);
    while (!bytes.empty()) {
      const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Failed(path_);
      size_ += count;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::Status BeginAnew() {
    if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0) {
      return Failed(path_);
    }
    TANDEM_ASSIGN_OR_RETURN(digest_, Digest::For(file_.etag, file_.size));
    size_ = 0;
    return absl::OkStatus();
  }

  absl::Status Sync() const { return fsync(descriptor_) == 0 ? absl::OkStatus() : Failed(path_); }

 private:
  Part(int descriptor, fs::path path, const RemoteFile& file, Digest digest)
      : descriptor_(descriptor), path_(std::move(path)), file_(file), digest_(std::move(digest)) {}

  absl::Status ReadWhatIsThere() {
    std::vector<char> buffer(1 << 20);
    while (true) {
      const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Failed(path_);
      if (count == 0) return absl::OkStatus();
      size_ += count;
      if (size_ > file_.size) return BeginAnew();
      digest_.Add(absl::string_view(buffer.data(), static_cast<size_t>(count)));
    }
  }

  int descriptor_;
  fs::path path_;
  const RemoteFile& file_;
  Digest digest_;
  int64_t size_ = 0;
};

// Until the part is whole. Tries that bring fewer bytes than a thousandth of the file count as
// failures.
absl::Status Fill(HubClient& client, const std::string& commit, const RemoteFile& file, Part& part,
                  PullObserver& observer) {
  int failures = 0;
  int64_t reached = part.size();  // of the most that was held, when the last progress was made
  while (!part.IsWhole()) {
    const int64_t before = part.size();
    const auto begin = [&](int64_t offset) -> absl::Status {
      if (offset == part.size()) return absl::OkStatus();
      observer.OnBytes(-part.size());
      return part.BeginAnew();
    };
    const auto add = [&](absl::string_view bytes) -> absl::Status {
      TANDEM_RETURN_IF_ERROR(part.Add(bytes));
      observer.OnBytes(static_cast<int64_t>(bytes.size()));
      return absl::OkStatus();
    };
    absl::Status status = client.Fetch(commit, file.name, before, begin, add);
    if (part.IsWhole() && !absl::IsDataLoss(status)) return absl::OkStatus();
    if (status.ok()) status = absl::UnavailableError(absl::StrCat(file.name, " was cut"));
    if (!MayRetry(status)) return status;
    // A server that sends a byte per connection, or begins again and again, would be asked for
    // ever.
    const bool progress = part.size() - reached >= std::max(kMinProgressBytes, file.size / 1000);
    if (progress) reached = part.size();
    failures = progress ? 1 : failures + 1;
    if (failures >= kMaxFailures) {
      return absl::UnavailableError(absl::StrCat(status.message(), "; ", part.size(), " of ",
                                                 file.size, " bytes of ", file.name,
                                                 " are kept: `tandem pull` goes on there"));
    }
    const absl::Duration wait = client.Wait(failures);
    observer.OnNote(absl::StrCat(status.message(), "; again in ", absl::FormatDuration(wait)));
    absl::SleepFor(wait);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t BytesHeld(const hub::RepositoryFolder& folder, const RemoteFile& file) {
  const fs::path blob = folder.Blob(file.etag);
  if (SizeOf(blob) == file.size) return file.size;
  const int64_t size = SizeOf(Incomplete(blob));
  return size > 0 && size <= file.size ? size : 0;
}

absl::Status DownloadBlob(HubClient& client, const std::string& commit, const RemoteFile& file,
                          const hub::RepositoryFolder& folder, PullObserver& observer) {
  const fs::path blob = folder.Blob(file.etag);
  if (SizeOf(blob) == file.size) return absl::OkStatus();
  const int64_t planned = BytesHeld(folder, file);
  TANDEM_ASSIGN_OR_RETURN(
      const FileLock lock, FileLock::Take(folder.Lock(file.etag), [&] {
        observer.OnNote(absl::StrCat("waiting for another process that downloads ", file.name));
      }));
  if (SizeOf(blob) == file.size) {  // it was the other one's
    observer.OnBytes(file.size - planned);
    return absl::OkStatus();
  }
  const fs::path incomplete = Incomplete(blob);
  TANDEM_ASSIGN_OR_RETURN(Part part, Part::Open(incomplete, file));
  observer.OnBytes(part.size() - planned);
  bool is_resumed = part.size() > 0;
  while (true) {
    absl::Status filled = Fill(client, commit, file, part, observer);
    if (absl::IsDataLoss(filled)) fs::remove(incomplete);
    if (!filled.ok()) return filled;
    if (part.Matches()) break;
    const int64_t size = part.size();
    TANDEM_RETURN_IF_ERROR(part.BeginAnew());
    observer.OnBytes(-size);
    if (!std::exchange(is_resumed, false)) {
      fs::remove(incomplete);
      return absl::DataLossError(absl::StrCat(file.name,
                                              " is not what the hub says it is: its hash is not ",
                                              file.etag, "; nothing of it was kept"));
    }
    observer.OnNote(absl::StrCat("what an earlier download left of ", file.name,
                                 " is not right; again from the start"));
  }
  TANDEM_RETURN_IF_ERROR(part.Sync());
  return base::Publish(incomplete.string(), blob.string(), base::Existing::kReplace);
}

}  // namespace tandem::client
