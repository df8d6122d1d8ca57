// What the terminal that a report is written to can show.
//
// Thread safety: plain values and pure functions; AskTerminal reads the environment.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::client {

struct TerminalStyle {
  int width = 80;      // columns; at least kMinWidth
  bool color = false;  // escape codes may be used
  bool utf8 = false;   // false: ASCII only
};

inline constexpr int kDefaultWidth = 80;
inline constexpr int kMinWidth = 40;  // a narrower terminal wraps the lines itself
inline constexpr int kMaxWidth = 200;

// What the environment says about a terminal.
struct TerminalFacts {
  bool is_terminal = false;
  int columns = 0;       // 0: unknown
  std::string locale;    // LC_ALL, LC_CTYPE or LANG: the first that is set and not empty
  std::string no_color;  // NO_COLOR (no-color.org); any text turns colours off
  std::string term;      // TERM
};

TerminalFacts AskTerminal(int file_descriptor);

// `color` is auto, always or never. auto means colours on a terminal that has them, unless NO_COLOR
// is set.
TerminalStyle StyleFor(absl::string_view color, const TerminalFacts& facts);

// `text` between the escape codes for `sgr` ("1", "38;5;32"). Without colours it is `text` alone.
std::string Paint(absl::string_view sgr, absl::string_view text, const TerminalStyle& style);

// The number of columns of a UTF-8 text whose characters are all one column wide. Escape codes have
// no width.
int Columns(absl::string_view text);

// The first `columns` columns of a text, with its escape codes.
std::string Fit(absl::string_view text, int columns);

// `items` side by side, `gap` blanks apart, in lines of at most `width` columns. Each line begins
// with `indent` blanks and ends with a line break. An item is never split. Escape codes have no
// width.
std::string Wrap(const std::vector<std::string>& items, int gap, int width, int indent);
// The same for the words of a sentence.
std::string Wrap(absl::string_view sentence, int width, int indent);

}  // namespace tandem::client
