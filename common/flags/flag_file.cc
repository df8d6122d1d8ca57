#include "common/flags/flag_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/flags/values.h"

namespace tandem::flags {

absl::StatusOr<std::vector<FlagLine>> ReadFlagFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::vector<FlagLine> lines;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text[0] == '#') continue;
    lines.push_back({absl::StrCat(path, ":", number), std::string(text)});
  }
  // A folder can be opened, but not read.
  if (!file.is_open() || file.bad()) {
    return BadFlag("flagfile", path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  return lines;
}

}  // namespace tandem::flags
