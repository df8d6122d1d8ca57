#include "common/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::base {
namespace {

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::FailedPreconditionError(message);
}

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
}

absl::Status TooLarge(const std::string& path, int64_t max_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": larger than the maximum of ", max_bytes, " bytes"));
}

// The rest of an open file that is expected to have `expected` bytes.
absl::StatusOr<std::string> ReadRest(int file, const std::string& path, int64_t expected,
                                     int64_t max_bytes) {
  std::string text;
  size_t size = 0;
  while (true) {
    // One byte more than there should be tells the end.
    const auto more = std::max<int64_t>(expected + 1 - static_cast<int64_t>(size), 1 << 16);
    text.resize(size + static_cast<size_t>(more));
    const ssize_t count = read(file, text.data() + size, static_cast<size_t>(more));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(path, errno);
    size += static_cast<size_t>(count);
    if (static_cast<int64_t>(size) > max_bytes) return TooLarge(path, max_bytes);
    if (count == 0) break;
  }
  text.resize(size);
  return text;
}

absl::StatusOr<std::string> Read(const std::string& path, int64_t max_bytes, bool regular) {
  // Opening a FIFO would wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_NONBLOCK : 0));
  // A socket cannot be opened.
  if (file < 0) return errno == ENXIO ? NotRegular(path) : CannotRead(path, errno);
  const absl::Cleanup close_it = [file] { close(file); };
  struct stat info = {};
  if (fstat(file, &info) != 0) return CannotRead(path, errno);
  if (regular && !S_ISREG(info.st_mode)) return NotRegular(path);
  if (info.st_size > max_bytes) return TooLarge(path, max_bytes);
  return ReadRest(file, path, info.st_size, max_bytes);
}

}  // namespace

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t max_bytes) {
  return Read(path, max_bytes, /*regular=*/true);
}

absl::StatusOr<std::string> ReadRegularFileIfThere(const std::string& path, int64_t max_bytes) {
  absl::StatusOr<std::string> text = ReadRegularFile(path, max_bytes);
  return absl::IsNotFound(text.status()) ? std::string() : std::move(text);
}

absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes) {
  return Read(path, max_bytes, /*regular=*/false);
}

absl::StatusOr<std::string> ReadStandardInput(int64_t max_bytes) {
  return ReadRest(STDIN_FILENO, "standard input", 0, max_bytes);
}

}  // namespace tandem::base
