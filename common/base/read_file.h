// Reads whole files that somebody else wrote, such as those of a model's directory.
//
// Thread safety: pure functions of the file system.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::base {

// The content of a regular file, or of one that a symbolic link leads to. Nothing else is read: a
// FIFO or a device may never end, or never begin. A file larger than `max_bytes` is refused before
// it is read.
//
// Errors name the path and the reason. NOT_FOUND: there is no such file. PERMISSION_DENIED.
// INVALID_ARGUMENT: not a regular file, or too large. FAILED_PRECONDITION: it cannot be read.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, int64_t max_bytes);

// The same; an empty text where there is no such file.
absl::StatusOr<std::string> ReadRegularFileIfThere(const std::string& path, int64_t max_bytes);

// As ReadRegularFile, for a file that the user of a command names, which may be a pipe:
// `<(COMMAND)`.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes);
// Standard input to its end, bounded and told of likewise.
absl::StatusOr<std::string> ReadStandardInput(int64_t max_bytes);

}  // namespace tandem::base
