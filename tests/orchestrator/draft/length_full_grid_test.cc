// The whole grid. Prints the cells in which the policy misses 0.98 of the best.
#include <algorithm>
#include <iostream>
#include <memory>

#include "gtest/gtest.h"
#include "orchestrator/draft/length/auto.h"
#include "tests/orchestrator/draft/length_grid.h"

namespace tandem::orchestrator::length_full_grid_test {
namespace {

MakeLength Auto(uint32_t sequences) {
  auto common = std::make_shared<CommonLength>();
  for (uint32_t i = 0; i < sequences; ++i) common->Began();
  return [common]() -> std::unique_ptr<LengthPolicy> {
    return std::make_unique<AutoLength>(*common, common->Group("", acceptance::Rule::kGreedy));
  };
}

// Near a tie of two lengths, and where the rounds of a length fall together in several ways, trials of
// some rounds cannot tell what is best in the long run. Against no draft, little is ever lost.
TEST(LengthFullGrid, AutoIsAsFastAsTheBestFixedLengthAndNone) {
  int misses = 0;
  double worst = 1;
  double worst_to_off = 1;
  double sum = 0;
  const std::vector<GridCell> cells = LengthGrid();
  for (const GridCell& cell : cells) {
    const GridResult result = Measure(cell, Auto, /*windows=*/8);
    sum += result.ratio();
    worst = std::min(worst, result.ratio());
    worst_to_off = std::min(worst_to_off, result.tried / result.off);
    if (result.ratio() >= 0.98) continue;
    ++misses;
    std::cout << result.ToString() << "\n";
  }
  std::cout << misses << " of " << cells.size() << " cells below 0.98; worst " << worst
            << ", to no draft " << worst_to_off << ", mean " << sum / cells.size() << "\n";
  EXPECT_LE(misses, static_cast<int>(cells.size()) / 100);
  EXPECT_GE(worst, 0.95);
  EXPECT_GE(worst_to_off, 0.965);
}

}  // namespace
}  // namespace tandem::orchestrator::length_full_grid_test
