// The rows of a time line: which rounds are shown, and their columns.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/common/terminal.h"
#include "client/generate/timeline_bar.h"

namespace tandem::client {

// Chooses the rounds to show, by their times in microseconds, and returns their indices in rising
// order. All are shown if there are at most `max`. Else the first `max` / 4 are shown and as many
// of the slowest others as fit; of equal times the earlier is taken. A gap of a single round is
// filled.
std::vector<size_t> ChooseRows(const std::vector<uint64_t>& times, size_t max);

struct RowLayout {
  // Lays out the columns for `rounds`. If the width is too small, the column of the pass is left
  // out first, then that of the start.
  RowLayout(absl::Span<const v1::RoundRecord> rounds, const TerminalStyle& style);

  std::string Head() const;  // the heading, with the axis
  std::string Row(const v1::RoundRecord& round) const;
  std::string Gap(size_t rounds) const;
  // A line with `label` before the column of the bars and `bar` in it.
  std::string BesideBar(const std::string& label, const std::string& bar) const;

  TerminalStyle style;
  Scale scale;
  int number_width = 0;
  int start_width = 0;  // 0: left out
  int took_width = 0;
  int tokens_width = 0;
  int pass_width = 0;  // 0: left out
  int start_decimals = 0;
  int took_decimals = 0;
};

// "●●●○+": accepted, rejected, the target's own token. Tokens that the text did not get have a mark
// of their own. A round without a draft shows the cause.
std::string TokensCell(const v1::RoundRecord& round, const TerminalStyle& style);

// The meaning of the characters of TokensCell, as items of a legend.
std::vector<std::string> TokensLegend(absl::Span<const v1::RoundRecord> rounds,
                                      const TerminalStyle& style);

}  // namespace tandem::client
