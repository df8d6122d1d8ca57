#include "common/flags/flag_file.h"

#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/read_file.h"
#include "common/flags/values.h"

namespace tandem::flags {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::vector<FlagLine>> ReadFlagFile(const std::string& path) {
  const absl::StatusOr<std::string> content = base::ReadFileOrPipe(path, kMaxBytes);
  if (!content.ok()) {
    return BadFlag("flagfile", path, absl::StrCat("cannot be read: ", content.status().message()));
  }
  std::istringstream file(*content);
  std::vector<FlagLine> lines;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text[0] == '#') continue;
    lines.push_back({absl::StrCat(path, ":", number), std::string(text)});
  }
  return lines;
}

}  // namespace tandem::flags
