// Where tests find what the repository holds and what the build made. Absolute paths.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tandem::testing {

// A file or folder of the repository: SourcePath("demo/target").
std::string SourcePath(absl::string_view path);

// Of the data beside the repository: SharedPath("prompts"). A test skips where it is not there.
std::string SharedPath(absl::string_view path);

// A program of this build that users run: BinaryPath("tandem").
std::string BinaryPath(absl::string_view name);

// Something else that this build made, from the build folder: BuildPath("tests/deploy/x.so").
std::string BuildPath(absl::string_view path);

}  // namespace tandem::testing
