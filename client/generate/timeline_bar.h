// The bars of a time line: stages on a scale of so many microseconds a column.
//
// In colour a bar is exact to an eighth of a column. Without, each column shows the stage that has most of
// it, by a pattern; a bar is then as long as its time, rounded.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/generate/stages.h"
#include "client/generate/terminal.h"

namespace tandem::client {

struct Scale {
  int columns = 1;        // at least 1
  double longest = 1000;  // microseconds that fill them; above 0
  bool clipped = false;   // some bars are longer

  double PerColumn() const { return longest / columns; }
};

// The scale for rounds of these times, in microseconds: up to the longest, but where a few are far longer
// than the rest, up to the longest of the rest, so that an outlier does not flatten the others.
Scale ScaleFor(std::vector<uint64_t> times, int columns);

// Exactly scale.columns wide. A time above 0 is never invisible. A bar that is longer than the scale
// fills it, in proportion, and ends with a mark.
std::string Bar(const v1::Stages& stages, const Scale& scale, const TerminalStyle& style);

// The mark at its end.
std::string ClippedMark(const TerminalStyle& style);

// "0        10        20 ms": the tick of a label is where it begins. At most scale.columns wide.
std::string Axis(const Scale& scale);

// How many of `times` fall into each column, as heights; those beyond the scale into the last one. Exactly
// scale.columns wide.
std::string Histogram(const std::vector<uint64_t>& times, const Scale& scale,
                      const TerminalStyle& style);

// A piece of a stage's bar, for a legend.
std::string Swatch(Stage stage, int columns, const TerminalStyle& style);

// Milliseconds, with so many decimals.
std::string Milliseconds(double microseconds, int decimals);
// As many as make sense beside the largest of a column of numbers.
int DecimalsFor(double largest_microseconds);

}  // namespace tandem::client
