// The formulas of common/theory as tables.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/theory/options.h"
#include "common/theory/prepared.h"

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

// A round with times that are given or measured.
struct TheoryRound {
  double alpha = 0;
  int draft_tokens = 0;
  double tokens = 0;
  double microseconds = 0;
  double speed = 0;
  bool best = false;  // the best number of draft tokens up to max_gamma for this alpha
};

// What follows, in one line.
struct TheoryVerdict {
  double alpha = 0;
  int draft_tokens = 0;  // per round, the best number; 0: no draft pays
  double speed = 0;      // with so many; the target alone is 1
  std::optional<double>
      break_even;  // draft time per token below which a draft pays: in microseconds, without times
                   // as a part of a target pass; absent: none pays, however fast
  theory::PreparedRounds prepared;  // with blocks prepared in advance; with times alone
  theory::PreparedRounds chained;   // and a target that goes on with them by itself
};

struct TheoryReport {
  TheoryOptions options;
  std::vector<TheoryVerdict>
      verdicts;         // one for each alpha; empty: the paper's table 1 is all that was asked for
  bool table1 = false;  // the rows are those of the paper's table 1
  // By the paper's formulas; empty with times, which these do not know.
  std::vector<TheoryRow> rows;
  std::vector<TheoryBest> bests;  // one for each alpha
  // By times; empty without.
  std::vector<TheoryRound> rounds;
};

// `options` are validated, and have taken what the orchestrator measured.
TheoryReport MakeTheoryReport(const TheoryOptions& options);

std::string TheoryTables(const TheoryReport& report);  // the verdicts first; at most 80 columns
std::string TheoryJson(const TheoryReport& report);    // one line; null stands for infinite

}  // namespace tandem::client
