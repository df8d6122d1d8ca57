#include "orchestrator/peers/chooser.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::orchestrator {
namespace {

TEST(Chooser, TheMostLoadedOfManyIsNeverChosenAndOnlyTwoAreAsked) {
  const std::vector<int> load = {3, 1, 9, 2};
  std::vector<int> chosen(load.size(), 0);
  int questions = 0;
  Chooser chooser(7);
  for (int i = 0; i < 600; ++i) {
    ++chosen[chooser.Choose(load.size(), [&](size_t a, size_t b) {
      EXPECT_NE(a, b);
      ++questions;
      return load[a] < load[b];
    })];
  }
  EXPECT_EQ(questions, 600);
  // Of the 6 pairs the lightest wins 3, the next 2, the next 1.
  EXPECT_NEAR(chosen[1], 300, 75);
  EXPECT_NEAR(chosen[3], 200, 75);
  EXPECT_NEAR(chosen[0], 100, 60);
  EXPECT_EQ(chosen[2], 0);
}

TEST(Chooser, EquallyLoadedOnesAreChosenEquallyOften) {
  std::vector<int> chosen(3, 0);
  Chooser chooser(11);
  for (int i = 0; i < 900; ++i) ++chosen[chooser.Choose(3, [](size_t, size_t) { return false; })];
  for (int times : chosen) EXPECT_NEAR(times, 300, 80);
}

TEST(Chooser, OneIsOne) {
  Chooser chooser(1);
  EXPECT_EQ(chooser.Choose(1, [](size_t, size_t) { return true; }), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
