// The formulas of common/theory as tables.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/theory/options.h"

namespace tandem::client {

// The figures of Leviathan et al. 2023, for a target pass of constant time.
struct TheoryRow {
  double alpha = 0;
  int gamma = 0;
  double tokens = 0;  // in a round
  double speed = 0;   // the target alone is 1; so for the next two
  double operations = 0;
  double reads_saved = 0;
};

struct TheoryBest {
  double alpha = 0;
  int gamma = 0;  // 0: no draft is best
  double speed = 0;
  std::optional<double> min;  // corollary 3.9; absent if no gamma is faster than none
  double bound = 0;           // infinite for alpha = 1; so may the next be
  double oracle = 0;
};

// A round with measured times.
struct TheoryRound {
  double alpha = 0;
  int candidates = 0;
  double tokens = 0;
  double microseconds = 0;
  double speed = 0;
  bool best = false;  // the best number of candidates up to max_gamma for this alpha
};

struct TheoryReport {
  TheoryOptions options;
  bool table1 = false;  // the rows are those of the paper's table 1
  std::vector<TheoryRow> rows;
  std::vector<TheoryBest> bests;    // one for each alpha
  std::vector<TheoryRound> rounds;  // empty without a cost curve
};

// `options` are validated.
TheoryReport MakeTheoryReport(const TheoryOptions& options);

std::string TheoryTables(const TheoryReport& report);  // at most 80 columns
std::string TheoryJson(const TheoryReport& report);    // one line; null stands for infinite

}  // namespace tandem::client
