#include "tests/support/paths.h"

#include "absl/strings/str_cat.h"

namespace tandem::testing {

std::string SourcePath(absl::string_view path) {
  return absl::StrCat(TANDEM_SOURCE_DIR, "/", path);
}

std::string SharedPath(absl::string_view path) {
  return SourcePath(absl::StrCat("../shared/data/", path));
}

std::string BinaryPath(absl::string_view name) { return BuildPath(absl::StrCat("bin/", name)); }

std::string BuildPath(absl::string_view path) { return absl::StrCat(TANDEM_BUILD_DIR, "/", path); }

}  // namespace tandem::testing
