// Files that commands write. An existing file is replaced only where the caller allows it, anything
// else than a regular file never is, and a file has its name only once all of it is on the disk.
//
// Thread safety: one thread for an OutputFile; the functions may be called by any.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::base {

enum class Existing { kKeep, kReplace };

// Errors of all that follows name the path and the system's reason. ALREADY_EXISTS: there is a file
// and `existing` is kKeep. INVALID_ARGUMENT: there is something else than a regular file, such as a
// directory, a device or a symbolic link. RESOURCE_EXHAUSTED: no space. NOT_FOUND: no such
// directory. FAILED_PRECONDITION: the directory cannot be written to, and anything else.

// Whether a file may be made at `path`. Ask before any work is done for it. Nothing is written.
absl::Status CheckOutput(const std::string& path, Existing existing);

// Renames a finished file, or a directory, which lies in the same file system. With kKeep that is
// atomic, too: of two processes one gets ALREADY_EXISTS. A directory needs kKeep.
absl::Status Publish(const std::string& finished, const std::string& path, Existing existing);

// A file that takes its name when it is whole. Until then it is a file of another name beside it,
// which goes with this object.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path, Existing existing);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(absl::string_view bytes);
  absl::Status Commit();  // once, at the end

 private:
  OutputFile(std::string path, Existing existing) : path_(std::move(path)), existing_(existing) {}

  std::string path_;
  Existing existing_;
  std::string temporary_;  // empty: it has its name, or none was made
  int descriptor_ = -1;
};

absl::Status WriteFile(const std::string& path, absl::string_view bytes, Existing existing);

// The status of something that failed with `error`, an errno: "cannot write PATH: REASON".
absl::Status CannotWrite(const std::string& path, int error, absl::string_view what = "write");

}  // namespace tandem::base
