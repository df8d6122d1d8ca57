#include "common/theory/round_time.h"

#include <cmath>

#include "common/theory/speedup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::theory {
namespace {

using ::testing::HasSubstr;

double Rounded(double value) { return std::round(value * 100) / 100; }

PassTime Make(std::vector<PassTime::Point> points) { return *PassTime::Create(std::move(points)); }

TEST(RoundTimeTest, PassTimeBetweenAndBeyondItsPoints) {
  const PassTime time = Make({{2, 100}, {4, 120}, {8, 200}});
  EXPECT_EQ(time(1), 100);
  EXPECT_EQ(time(2), 100);
  EXPECT_EQ(time(3), 110);
  EXPECT_EQ(time(6), 160);
  EXPECT_EQ(time(8), 200);
  EXPECT_EQ(time(16), 400);
  EXPECT_EQ(Make({{1, 7}})(3), 21);
}

TEST(RoundTimeTest, BadPointsAreNamed) {
  auto error = [](std::vector<PassTime::Point> points) {
    return std::string(PassTime::Create(std::move(points)).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("at least one point"));
  EXPECT_THAT(error({{0, 1}}), HasSubstr("at least 1"));
  EXPECT_THAT(error({{1, 0}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{1, NAN}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{2, 1}, {2, 1}}), HasSubstr("2 follows 2"));
  EXPECT_THAT(error({{1, 5}, {2, 4}}), HasSubstr("2 rows take less than 1"));
}

// alpha = 0.7, K = 4, a round trip of 1 ms, passes that cost the same for 5 rows.
TEST(RoundTimeTest, ASplitDraftPaysOrDoesNot) {
  auto speedup = [](double target_ms, double draft_ms) {
    const RoundTimes times{Make({{1, target_ms * 1000}, {5, target_ms * 1000}}), draft_ms * 1000,
                           1000};
    return Rounded(RoundSpeedup(times, 4, ExpectedTokens(0.7, 4)));
  };
  EXPECT_DOUBLE_EQ(speedup(6, 10), 0.35);
  EXPECT_DOUBLE_EQ(speedup(25, 10), 1.05);
  EXPECT_DOUBLE_EQ(speedup(60, 5), 2.05);
}

TEST(RoundTimeTest, RowsThatHaveTheirPriceTakeItFromTheGain) {
  const RoundTimes flat{Make({{1, 1000}, {5, 1000}}), 0, 0};
  const RoundTimes dear{Make({{1, 1000}, {5, 2000}}), 0, 0};
  EXPECT_DOUBLE_EQ(RoundSpeedup(flat, 4, 3), 3);
  EXPECT_DOUBLE_EQ(RoundSpeedup(dear, 4, 3), 1.5);
  EXPECT_DOUBLE_EQ(RoundSpeedup(flat, 4, ExpectedTokens(0.6, 4)), Speedup(0.6, 4, 0));
}

TEST(RoundTimeTest, WithoutCandidatesNobodyIsAsked) {
  const RoundTimes times{Make({{1, 1000}}), 300, 5000};
  EXPECT_EQ(RoundMicroseconds(times, 0), 1000);
  EXPECT_EQ(RoundSpeedup(times, 0, 1), 1);
  EXPECT_EQ(RoundMicroseconds(times, 2), 2 * 300 + 5000 + 3000);
}

TEST(RoundTimeTest, OptimalCandidates) {
  // Flat to 4 rows, then a whole pass' price for each 4 more.
  const RoundTimes steps{Make({{1, 1000}, {4, 1000}, {5, 2000}, {8, 2000}}), 10, 0};
  EXPECT_EQ(OptimalCandidates(steps, 0.7, 7), 3);
  EXPECT_EQ(OptimalCandidates({Make({{1, 1000}}), 0, 0}, 0.9, 16), 0);  // each row its full price
  EXPECT_EQ(OptimalCandidates(steps, 0, 7), 0);
}

// At the break-even time the best speed is 1, and just below it is more.
TEST(RoundTimeTest, BreakEvenDraftTime) {
  const auto break_even = [](std::vector<PassTime::Point> points, double round_trip_us) {
    return BreakEvenDraftMicroseconds({Make(std::move(points)), 0, round_trip_us}, 0.75, 16);
  };
  // The round trip is better shared by three draft tokens: (2.734375 x 7 - 3.5 - 7) / 3.
  EXPECT_NEAR(*break_even({{1, 7000}, {17, 7000}}, 3500), 8640.625 / 3, 1e-6);
  EXPECT_NEAR(*break_even({{1, 7000}, {17, 7000}}, 500), 4750, 1e-6);
  EXPECT_FALSE(break_even({{1, 7000}}, 0).has_value()) << "each row as dear as a pass";
  EXPECT_FALSE(break_even({{1, 7000}, {17, 7000}}, 1e6).has_value());
  for (double draft_us : {4749.0, 4751.0}) {
    const RoundTimes times{Make({{1, 7000}, {17, 7000}}), draft_us, 500};
    EXPECT_EQ(OptimalCandidates(times, 0.75, 16), draft_us < 4750 ? 1 : 0);
  }
}

}  // namespace
}  // namespace tandem::theory
