// The version of this build.
#pragma once

#include "absl/strings/string_view.h"

namespace tandem::base {

// "0.1.0": the project's, in the top CMakeLists.txt.
absl::string_view Version();

}  // namespace tandem::base
