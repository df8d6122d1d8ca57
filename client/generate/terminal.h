// Where a report is written to, and what it may look like there.
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
  bool utf8 = false;   // else ASCII alone
};

inline constexpr int kDefaultWidth = 80;
inline constexpr int kMinWidth = 40;  // narrower terminals wrap the lines themselves
inline constexpr int kMaxWidth = 200;

// What there is to know about it.
struct TerminalFacts {
  bool is_terminal = false;
  int columns = 0;       // 0: it does not say
  std::string locale;    // LC_ALL, LC_CTYPE or LANG: the first that is set and not empty
  std::string no_color;  // NO_COLOR (no-color.org); any text but none turns colours off
  std::string term;      // TERM
};

TerminalFacts AskTerminal(int file_descriptor);

// `color`: auto, always, never. auto: on a terminal that has colours, unless NO_COLOR is set.
TerminalStyle StyleFor(absl::string_view color, const TerminalFacts& facts);

// `text` between the escape codes for `sgr` ("1", "38;5;32"); just the text without colours.
std::string Paint(absl::string_view sgr, absl::string_view text, const TerminalStyle& style);

// Columns of UTF-8 text all of whose characters are one wide; escape codes count nothing.
int Columns(absl::string_view text);

// The first `columns` of it, escape codes and all.
std::string Fit(absl::string_view text, int columns);

// `items` in a row, `gap` blanks between them, in lines of at most `width` columns, each after `indent`
// blanks and with its line break. An item stays whole. Escape codes count nothing.
std::string Wrap(const std::vector<std::string>& items, int gap, int width, int indent);
// The same of a sentence's words.
std::string Wrap(absl::string_view sentence, int width, int indent);

}  // namespace tandem::client
