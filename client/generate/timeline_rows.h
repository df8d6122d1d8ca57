// The rows of a time line: which rounds are shown, and their columns.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/generate/terminal.h"
#include "client/generate/timeline_bar.h"

namespace tandem::client {

// Of `times`, in microseconds, the indices that are shown, rising: all of at most `most`; else the first
// quarter of `most` and as many of the slowest others. Of equals the earlier. A gap of one is filled.
std::vector<size_t> ChooseRows(const std::vector<uint64_t>& times, size_t max);

struct RowLayout {
  // For these rounds. Columns that do not fit are left out: the pass first, then the start.
  RowLayout(absl::Span<const v1::RoundRecord> rounds, const TerminalStyle& style);

  std::string Head() const;  // with the axis
  std::string Row(const v1::RoundRecord& round) const;
  std::string Gap(size_t rounds) const;
  // `label` in the columns before the bar, and `bar` in that of the bars.
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

// "●●●○+": accepted, rejected, the target's own token; what the text has not got is marked, too; and the
// cause when there was no draft.
std::string TokensCell(const v1::RoundRecord& round, const TerminalStyle& style);

// What the characters of TokensCell mean, as items of a legend.
std::vector<std::string> TokensLegend(absl::Span<const v1::RoundRecord> rounds,
                                      const TerminalStyle& style);

}  // namespace tandem::client
