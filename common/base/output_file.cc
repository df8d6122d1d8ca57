#include "common/base/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem::base {
namespace {

constexpr int kMaxTemporaries = 100;  // left behind by processes of this id that were killed

std::string DirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Absent: nothing is there. A link is not followed.
absl::StatusOr<std::optional<struct stat>> Look(const std::string& path) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0) return std::optional(info);
  if (errno == ENOENT) return std::optional<struct stat>();
  return CannotWrite(path, errno);
}

// OK: `existing` allows a file to take this name.
absl::Status CheckName(const std::string& path, Existing existing) {
  TANDEM_ASSIGN_OR_RETURN(const auto found, Look(path));
  if (!found.has_value()) return absl::OkStatus();
  const char* kind = nullptr;
  if (S_ISDIR(found->st_mode)) {
    kind = "a directory";
  } else if (S_ISLNK(found->st_mode)) {
    kind = "a symbolic link";
  } else if (!S_ISREG(found->st_mode)) {
    kind = "not a regular file";
  }
  if (kind != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is ", kind, "; give the name of a file"));
  }
  if (existing == Existing::kReplace) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(path, " already exists: give another name, or --force to replace it"));
}

}  // namespace

absl::Status CannotWrite(const std::string& path, int error, absl::string_view what) {
  const std::string message = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(message);
  }
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return absl::FailedPreconditionError(message);
}

absl::Status CheckOutput(const std::string& path, Existing existing) {
  TANDEM_RETURN_IF_ERROR(CheckName(path, existing));
  if (path.empty() || path.back() == '/') return CannotWrite(path, EISDIR);
  const std::string directory = DirectoryOf(path);
  struct stat info = {};
  if (stat(directory.c_str(), &info) != 0) return CannotWrite(path, errno);
  if (!S_ISDIR(info.st_mode)) return CannotWrite(path, ENOTDIR);
  if (access(directory.c_str(), W_OK | X_OK) != 0) return CannotWrite(path, errno);
  return absl::OkStatus();
}

absl::Status Publish(const std::string& finished, const std::string& path, Existing existing) {
  TANDEM_RETURN_IF_ERROR(CheckName(path, existing));
  const char* const from = finished.c_str();
  const char* const to = path.c_str();
  int failed = existing == Existing::kReplace
                   ? rename(from, to)
                   : renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  // Some file systems cannot tell. CheckName has looked a moment ago.
  if (failed != 0 && existing == Existing::kKeep && (errno == EINVAL || errno == ENOSYS)) {
    failed = rename(from, to);
  }
  if (failed == 0) return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST) TANDEM_RETURN_IF_ERROR(CheckName(path, existing));
  return CannotWrite(path, error);
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path, Existing existing) {
  TANDEM_RETURN_IF_ERROR(CheckOutput(path, existing));
  OutputFile file(path, existing);
  for (int i = 0; i < kMaxTemporaries && file.descriptor_ < 0; ++i) {
    file.temporary_ = absl::StrCat(path, ".", getpid(), ".", i, ".tmp");
    file.descriptor_ = open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor_ < 0 && errno != EEXIST) break;
  }
  if (file.descriptor_ < 0) {
    const int error = errno;
    file.temporary_.clear();
    return CannotWrite(path, error);
  }
  TANDEM_ASSIGN_OR_RETURN(const auto replaced, Look(path));
  if (replaced.has_value()) (void)fchmod(file.descriptor_, replaced->st_mode & 07777);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      existing_(other.existing_),
      temporary_(std::exchange(other.temporary_, "")),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status OutputFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotWrite(path_, errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (fsync(descriptor_) != 0) return CannotWrite(path_, errno);
  if (close(std::exchange(descriptor_, -1)) != 0) return CannotWrite(path_, errno);
  TANDEM_RETURN_IF_ERROR(Publish(temporary_, path_, existing_));
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, absl::string_view bytes, Existing existing) {
  TANDEM_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path, existing));
  TANDEM_RETURN_IF_ERROR(file.Write(bytes));
  return file.Commit();
}

}  // namespace tandem::base
