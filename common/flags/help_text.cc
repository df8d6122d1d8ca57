#include "common/flags/help_text.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tandem::flags {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kMinRoom = 40;  // for what a flag means, however long the names are

// `text` and then `facts`, which stay together, in lines of at most `room` columns; a longer word
// has a line of its own. All lines but the first begin after `indent` blanks.
std::string Wrapped(absl::string_view text, absl::string_view facts, size_t room, size_t indent) {
  std::string out;
  const std::string next_line = absl::StrCat("\n", std::string(indent, ' '));
  size_t column = 0;
  const auto add = [&](absl::string_view word) {
    if (column > 0 && column + 1 + word.size() > room) {
      out += next_line;
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!out.empty()) out += next_line;
    column = 0;
    for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) add(word);
  }
  if (!facts.empty()) add(absl::StrCat("(", facts, ")"));
  return out;
}

}  // namespace

std::string HelpText(const std::vector<HelpEntry>& entries) {
  size_t width = 0;
  for (const HelpEntry& entry : entries) width = std::max(width, entry.name.size());
  const size_t indent = width + 6;  // two blanks, two hyphens, the name, two blanks
  const size_t room = std::max(kMinRoom, kWidth - std::min(kWidth, indent));
  std::string text;
  std::string group;
  for (const HelpEntry& entry : entries) {
    if (entry.group != group) {
      group = entry.group;
      absl::StrAppend(&text, text.empty() ? "" : "\n", group, ":\n");
    }
    absl::StrAppend(&text, "  --", entry.name, std::string(width + 2 - entry.name.size(), ' '),
                    Wrapped(entry.help, entry.facts, room, indent), "\n");
  }
  return text;
}

}  // namespace tandem::flags
