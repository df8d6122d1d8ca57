#include "client/pull/file_lock.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace tandem::client {
namespace {

// Whether the path still leads to the open file: somebody may have removed it meanwhile, and then
// others lock another one.
bool IsStill(const std::filesystem::path& path, int descriptor) {
  struct stat open_file, named;
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

// Others of the group may lock it, too, whatever the umask of whoever made it.
int OpenOrMake(const std::filesystem::path& path) {
  const int made = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
  if (made >= 0) (void)fchmod(made, 0664);
  if (made >= 0 || errno != EEXIST) return made;
  return open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Take(const std::filesystem::path& path,
                                        const std::function<void()>& waiting) {
  bool told = false;
  while (true) {
    const int descriptor = OpenOrMake(path);
    if (descriptor < 0) {
      return absl::FailedPreconditionError(absl::StrCat(path.string(), ": ", strerror(errno)));
    }
    int locked = flock(descriptor, LOCK_EX | LOCK_NB);
    if (locked != 0 && errno == EWOULDBLOCK) {
      if (!told) waiting();
      told = true;
      do {
        locked = flock(descriptor, LOCK_EX);
      } while (locked != 0 && errno == EINTR);
    }
    if (locked != 0) {
      const int error = errno;
      close(descriptor);
      return absl::FailedPreconditionError(
          absl::StrCat("cannot lock ", path.string(), ": ", strerror(error)));
    }
    if (IsStill(path, descriptor)) return FileLock(descriptor);
    close(descriptor);
  }
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);  // which unlocks it
}

}  // namespace tandem::client
