// The formulas of common/theory as tables.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/theory/options.h"

namespace tandem::client {

// Leviathan et al. 2023, with a target pass of one price.
struct TheoryRow {
  double alpha = 0;
  int gamma = 0;
  double tokens = 0;  // a round
  double speed = 0;   // of the target alone as 1, as the next two
  double operations = 0;
  double reads_saved = 0;
};

struct TheoryBest {
  double alpha = 0;
  int gamma = 0;  // 0: no draft is best
  double speed = 0;
  std::optional<double> min;  // corollary 3.9; absent where no gamma is faster than none
  double bound = 0;           // infinite for alpha = 1; and so may the next be
  double oracle = 0;
};

// A round of measured parts.
struct TheoryRound {
  double alpha = 0;
  int candidates = 0;
  double tokens = 0;
  double microseconds = 0;
  double speed = 0;
  bool best = false;  // of all numbers of candidates up to max_gamma, under this alpha
};

struct TheoryReport {
  TheoryOptions options;
  bool table1 = false;  // the rows are those of the paper's table 1
  std::vector<TheoryRow> rows;
  std::vector<TheoryBest> bests;    // one for each alpha
  std::vector<TheoryRound> rounds;  // empty without a cost curve
};

// `options`: validated.
TheoryReport MakeTheoryReport(const TheoryOptions& options);

std::string TheoryTables(const TheoryReport& report);  // at most 80 columns
std::string TheoryJson(const TheoryReport& report);    // one line; what is infinite is null

}  // namespace tandem::client
