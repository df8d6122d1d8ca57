// A lock between processes: flock on a file, as the filelock package of Python takes it.
#pragma once

#include <filesystem>
#include <functional>

#include "absl/status/statusor.h"

namespace tandem::client {

// Held while it lives. The file stays. Thread safety: one thread.
class FileLock {
 public:
  // Waits until nobody else has it. `waiting` is told once, if somebody has. FAILED_PRECONDITION:
  // the file cannot be made or locked.
  static absl::StatusOr<FileLock> Take(const std::filesystem::path& path,
                                       const std::function<void()>& waiting);
  FileLock(FileLock&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace tandem::client
