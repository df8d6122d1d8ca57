#include "tests/support/chi_square.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

TEST(ChiSquareTest, TailAgainstFortyDigitArithmetic) {
  struct Case {
    double statistic;
    int degrees;
    double log_p;
  };
  const Case cases[] = {
      {3.841458820694124, 1, -2.9957322735539898},
      {0.5, 1, -0.7350111298370844},
      {58.124, 42, -2.9957254338507883},
      {5, 10, -0.11521107470692997},
      {100, 1, -52.538137969952525},
      {1000, 7, -485.65945087460853},
      {82108, 242, -40237.092234519899},
      {229, 242, -0.33389137407737032},
      {200000, 3, -99994.122750029917},
      {2000, 1999, -0.71439806644433971},
      {0.001, 2, -0.0005},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(LogChiSquareTail(c.statistic, c.degrees), c.log_p, 1e-10 * std::abs(c.log_p))
        << c.statistic << " " << c.degrees;
  }
  EXPECT_EQ(LogChiSquareTail(0, 3), 0);
  EXPECT_EQ(LogChiSquareTail(5, 0), 0);
}

TEST(ChiSquareTest, StatisticByHand) {
  std::vector<double> p = {0.5, 0.25, 0.25};
  std::vector<int64_t> counts = {40, 30, 30};
  ChiSquare result = GoodnessOfFit(p, counts);
  EXPECT_NEAR(result.statistic, 100 / 50.0 + 25 / 25.0 + 25 / 25.0, 1e-12);
  EXPECT_EQ(result.degrees, 2);
  EXPECT_NEAR(result.log_p, -2, 1e-12);  // two degrees: exp(-statistic / 2)
}

TEST(ChiSquareTest, PoolsCellsThatExpectFew) {
  std::vector<double> p = {0.6, 0.3, 0.04, 0.04, 0.02};
  std::vector<int64_t> counts = {55, 33, 5, 5, 2};
  ChiSquare result = GoodnessOfFit(p, counts);  // the last three expect 4, 4, 2
  EXPECT_EQ(result.degrees, 2);
  EXPECT_NEAR(result.statistic, 25 / 60.0 + 9 / 30.0 + 4 / 10.0, 1e-12);
  p = {0.6, 0.38, 0.02};
  counts = {60, 33, 7};
  result = GoodnessOfFit(p, counts);  // the last expects 2: it joins the second
  EXPECT_EQ(result.degrees, 1);
  EXPECT_NEAR(result.statistic, 0, 1e-12);
}

TEST(ChiSquareTest, ImpossibleObservationsFail) {
  std::vector<double> p = {1, 0};
  std::vector<int64_t> counts = {1000, 1};
  ChiSquare result = GoodnessOfFit(p, counts);
  EXPECT_EQ(result.impossible, 1);
  EXPECT_FALSE(result.Passes());
  EXPECT_TRUE(result.ControlIsCaught());
  counts[1] = 0;
  EXPECT_TRUE(GoodnessOfFit(p, counts).Passes());
}

TEST(ChiSquareTest, CatchesAShiftAndCombines) {
  std::vector<double> p = {0.5, 0.5};
  std::vector<int64_t> counts = {51000, 49000};
  ChiSquare shifted = GoodnessOfFit(p, counts);  // six standard deviations
  EXPECT_NEAR(shifted.statistic, 40, 1e-9);
  EXPECT_FALSE(shifted.Passes());  // p = 2.5e-10, a test's share is 1e-9
  EXPECT_FALSE(shifted.ControlIsCaught());
  std::vector<ChiSquare> four(4, shifted);
  ChiSquare all = Combine(four);
  EXPECT_EQ(all.degrees, 4);
  EXPECT_NEAR(all.statistic, 160, 1e-9);
  EXPECT_TRUE(all.ControlIsCaught());
  EXPECT_FALSE(all.Passes());
}

TEST(ChiSquareTest, TotalVariation) {
  std::vector<double> p = {0.5, 0.5, 0}, q = {0, 0.5, 0.5};
  EXPECT_DOUBLE_EQ(TotalVariation(p, q), 0.5);
}

}  // namespace
}  // namespace tandem::testing
