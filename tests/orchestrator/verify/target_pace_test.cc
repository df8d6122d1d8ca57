#include "orchestrator/verify/target_pace.h"

#include <gtest/gtest.h>

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kLong = 10 * TargetPace::kRoundRows;

TEST(TargetPace, NothingIsKnownAtFirstAndMuchIsAllowed) {
  TargetPace pace;
  EXPECT_EQ(pace.Round(), absl::ZeroDuration());
  EXPECT_GE(pace.Expected(1), absl::Milliseconds(100));
  EXPECT_GT(pace.Expected(kLong), pace.Expected(1));
}

TEST(TargetPace, AverageOfRounds) {
  TargetPace pace;
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  EXPECT_EQ(pace.Round(), absl::Milliseconds(10)) << "the first is taken as it is";
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(20));
  EXPECT_GT(pace.Round(), absl::Milliseconds(10));
  EXPECT_LT(pace.Round(), absl::Milliseconds(15)) << "one hiccup counts for little";
  for (int i = 0; i < 100; ++i) pace.Answered(5, absl::Milliseconds(20));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(pace.Round()), 20, 0.01);
  EXPECT_EQ(pace.Expected(5), pace.Round());
}

TEST(TargetPace, LongStepsPriceATokenAndLeaveTheRoundAlone) {
  TargetPace pace;
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  pace.Submitted(kLong);
  pace.Answered(kLong, absl::Milliseconds(1) * kLong);
  EXPECT_EQ(pace.Round(), absl::Milliseconds(10));
  EXPECT_EQ(pace.Expected(2 * kLong), absl::Milliseconds(10) + absl::Milliseconds(2) * kLong);
}

TEST(TargetPace, WhatIsUnderWayStandsBeforeANewStep) {
  TargetPace pace;
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  const absl::Duration alone = pace.Expected(5);
  pace.Submitted(kLong);
  const absl::Duration behind = pace.Expected(5);
  EXPECT_GT(behind, alone);
  pace.Submitted(kLong);
  EXPECT_GT(pace.Expected(5), behind);
  pace.Forgotten(kLong);
  EXPECT_EQ(pace.Expected(5), behind);
  pace.Forgotten(kLong);
  pace.Forgotten(kLong);  // more than there is
  EXPECT_EQ(pace.Expected(5), alone);
  EXPECT_EQ(pace.Round(), absl::Milliseconds(10)) << "no verdict, no measurement";
}

}  // namespace
}  // namespace tandem::orchestrator
