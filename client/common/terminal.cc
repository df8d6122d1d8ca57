#include "client/common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tandem::client {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

TerminalFacts AskTerminal(int file_descriptor) {
  TerminalFacts facts;
  facts.is_terminal = isatty(file_descriptor) == 1;
  winsize size = {};
  if (facts.is_terminal && ioctl(file_descriptor, TIOCGWINSZ, &size) == 0) {
    facts.columns = size.ws_col;
  }
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    facts.locale = Environment(name);
    if (!facts.locale.empty()) break;
  }
  facts.no_color = Environment("NO_COLOR");
  facts.term = Environment("TERM");
  return facts;
}

TerminalStyle StyleFor(absl::string_view color, const TerminalFacts& facts) {
  TerminalStyle style;
  if (facts.is_terminal && facts.columns > 0) {
    style.width = std::clamp(facts.columns, kMinWidth, kMaxWidth);
  }
  const bool has_colors =
      facts.is_terminal && facts.no_color.empty() && !facts.term.empty() && facts.term != "dumb";
  style.color = color == "always" || (color == "auto" && has_colors);
  const std::string locale = absl::AsciiStrToLower(facts.locale);
  style.utf8 = absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  return style;
}

std::string Paint(absl::string_view sgr, absl::string_view text, const TerminalStyle& style) {
  if (!style.color || sgr.empty() || text.empty()) return std::string(text);
  return absl::StrCat("\x1b[", sgr, "m", text, "\x1b[0m");
}

int Columns(absl::string_view text) {
  int columns = 0;
  bool escaped = false;
  for (char c : text) {
    if (c == '\x1b') escaped = true;
    if (!escaped && BeginsCharacter(c)) ++columns;
    if (escaped && c == 'm') escaped = false;
  }
  return columns;
}

std::string Fit(absl::string_view text, int columns) {
  std::string fitting;
  int used = 0;
  bool escaped = false;
  for (char c : text) {
    if (c == '\x1b') escaped = true;
    if (!escaped && BeginsCharacter(c)) ++used;
    if (escaped || used <= columns) fitting += c;
    if (escaped && c == 'm') escaped = false;
  }
  return fitting;
}

std::string Wrap(const std::vector<std::string>& items, int gap, int width, int indent) {
  std::string lines;
  std::string line;
  for (const std::string& item : items) {
    if (!line.empty() && indent + Columns(line) + gap + Columns(item) > width) {
      absl::StrAppend(&lines, std::string(indent, ' '), line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : std::string(gap, ' '), item);
  }
  if (!line.empty()) absl::StrAppend(&lines, std::string(indent, ' '), line, "\n");
  return lines;
}

std::string Wrap(absl::string_view sentence, int width, int indent) {
  return Wrap(absl::StrSplit(sentence, ' ', absl::SkipEmpty()), 1, width, indent);
}

}  // namespace tandem::client
