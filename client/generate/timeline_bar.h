// The bars of a time line: stages on a scale of microseconds per column.
//
// With colours a bar is exact to an eighth of a column. Without colours each column shows, as a
// pattern, the stage that fills most of it, and the length of the bar is rounded to columns.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/common/terminal.h"
#include "client/generate/stages.h"

namespace tandem::client {

struct Scale {
  int columns = 1;        // at least 1
  double longest = 1000;  // microseconds that fill the columns; above 0
  bool clipped = false;   // some bars are longer

  double PerColumn() const { return longest / columns; }
};

// The scale for rounds that took `times` microseconds. It reaches to the longest. If a few are far
// longer than the others, it reaches to the longest of the others, so that outliers do not flatten
// the rest.
Scale ScaleFor(std::vector<uint64_t> times, int columns);

// A bar of exactly scale.columns columns. A stage with a time above 0 is always visible. A bar that
// is longer than the scale fills it in proportion and ends with a mark.
std::string Bar(const v1::Stages& stages, const Scale& scale, const TerminalStyle& style);

// The mark at the end of a bar that is longer than the scale.
std::string ClippedMark(const TerminalStyle& style);

// "0        10        20 ms": a label begins at its tick. At most scale.columns columns wide.
std::string Axis(const Scale& scale);

// A histogram of exactly scale.columns columns: the height of a column is the number of `times` in
// it. Times beyond the scale count in the last column.
std::string Histogram(const std::vector<uint64_t>& times, const Scale& scale,
                      const TerminalStyle& style);

// A piece of a stage's bar for a legend.
std::string Swatch(Stage stage, int columns, const TerminalStyle& style);

// Microseconds as milliseconds with so many decimals.
std::string Milliseconds(double microseconds, int decimals);
// The number of decimals for a column of numbers whose largest is this one.
int DecimalsFor(double largest_microseconds);

}  // namespace tandem::client
