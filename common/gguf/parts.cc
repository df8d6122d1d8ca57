#include "common/gguf/parts.h"

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace tandem::gguf {
namespace {

constexpr int kMaxParts = 1024;

}  // namespace

absl::StatusOr<std::vector<std::string>> PartsOf(const std::string& path) {
  constexpr absl::string_view kEnd = "-00001-of-00001.gguf";
  int part = 0, parts = 0, read = 0;
  const bool long_enough = path.size() > kEnd.size();
  const std::string end = long_enough ? path.substr(path.size() - kEnd.size()) : "";
  const bool is_part = std::sscanf(end.c_str(), "-%5d-of-%5d.gguf%n", &part, &parts, &read) == 2 &&
                       read == static_cast<int>(kEnd.size());
  if (!is_part) return std::vector{path};
  const std::string stem = path.substr(0, path.size() - kEnd.size());
  if (parts < 1 || parts > kMaxParts) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a model has 1 to ", kMaxParts, " parts, not ", parts));
  }
  if (part != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": give the first part, ", absl::StrFormat("%s-00001-of-%05d.gguf", stem, parts)));
  }
  std::vector<std::string> paths;
  for (int i = 1; i <= parts; ++i)
    paths.push_back(absl::StrFormat("%s-%05d-of-%05d.gguf", stem, i, parts));
  return paths;
}

}  // namespace tandem::gguf
