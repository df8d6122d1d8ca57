// All of the grid of drafters; drafter_chooser_test.cc has a sample.
#include <algorithm>
#include <iostream>

#include "gtest/gtest.h"
#include "tests/orchestrator/draft/drafter_simulation.h"

namespace tandem::orchestrator::drafter_full_grid_test {
namespace {

TEST(DrafterFullGrid, TheChooserIsAsFastAsTheBestDrafterAlone) {
  double worst = 10, sum = 0, least_mixed = 10;
  int cells = 0;
  for (const DrafterSetting& setting : DrafterGrid()) {
    const DrafterSpeeds speeds = MeasureDrafters(setting, 20, 200, 1);
    const double ratio = speeds.chosen / speeds.best();
    std::cout << setting.name << ": " << speeds.ToString() << "\n";
    worst = std::min(worst, ratio);
    if (setting.texts.size() > 1) least_mixed = std::min(least_mixed, ratio);
    sum += ratio;
    ++cells;
  }
  std::cout << cells << " settings: mean " << sum / cells << ", worst " << worst
            << ", worst of several texts " << least_mixed << "\n";
  EXPECT_GE(worst, 0.97);
  EXPECT_GE(least_mixed, 1.0);
}

}  // namespace
}  // namespace tandem::orchestrator::drafter_full_grid_test
