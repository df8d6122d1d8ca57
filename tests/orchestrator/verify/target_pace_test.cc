#include "orchestrator/verify/target_pace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "common/concurrency/instant.h"

namespace tandem::orchestrator::target_pace_test {
namespace {

constexpr uint32_t kLong = 10 * TargetPace::kRoundRows;
constexpr concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));

TEST(TargetPace, NothingIsKnownAtFirstAndMuchIsAllowed) {
  TargetPace pace;
  EXPECT_EQ(pace.Round(), absl::ZeroDuration());
  EXPECT_GE(pace.Expected(1, kNow), absl::Milliseconds(100));
  EXPECT_GT(pace.Expected(kLong, kNow), pace.Expected(1, kNow));
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
  EXPECT_EQ(pace.Expected(5, kNow), pace.Round());
}

// A loaded machine stops a pass for a moment now and then. The next one may last as long, or
// longer.
TEST(TargetPace, ASlowRoundIsExpectedAgainForAWhile) {
  TargetPace pace;
  pace.Reported(0, {{1, absl::Milliseconds(20)}, {8, absl::Milliseconds(30)}}, kNow);
  const auto answered = [&](absl::Duration elapsed) {
    pace.Submitted(1);
    pace.Answered(1, elapsed);
  };
  for (int i = 0; i < 50; ++i) answered(absl::Milliseconds(20));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(pace.Expected(1, kNow)), 20, 0.01);
  answered(absl::Milliseconds(400));
  for (int i = 0; i < 30; ++i) answered(absl::Milliseconds(20));
  EXPECT_LT(pace.Round(), absl::Milliseconds(21)) << "it counts for little in the average";
  EXPECT_GT(pace.Expected(1, kNow), absl::Milliseconds(140));
  for (int i = 0; i < 300; ++i) answered(absl::Milliseconds(20));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(pace.Expected(1, kNow)), 20, 0.01);
}

TEST(TargetPace, LongStepsPriceATokenAndLeaveTheRoundAlone) {
  TargetPace pace;
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  pace.Submitted(kLong);
  pace.Answered(kLong, absl::Milliseconds(1) * kLong);
  EXPECT_EQ(pace.Round(), absl::Milliseconds(10));
  EXPECT_EQ(pace.Expected(2 * kLong, kNow), absl::Milliseconds(10) + absl::Milliseconds(2) * kLong);
}

TEST(TargetPace, WhatIsUnderWayStandsBeforeANewStep) {
  TargetPace pace;
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  const absl::Duration alone = pace.Expected(5, kNow);
  pace.Submitted(kLong);
  const absl::Duration behind = pace.Expected(5, kNow);
  EXPECT_GT(behind, alone);
  pace.Submitted(kLong);
  EXPECT_GT(pace.Expected(5, kNow), behind);
  pace.Forgotten(kLong);
  EXPECT_EQ(pace.Expected(5, kNow), behind);
  pace.Forgotten(kLong);
  pace.Forgotten(kLong);  // more than there is
  EXPECT_EQ(pace.Expected(5, kNow), alone);
  EXPECT_EQ(pace.Round(), absl::Milliseconds(10)) << "no verdict, no measurement";
}

TEST(TargetPace, TheReportedQueueAndWhatWasSentThereSince) {
  TargetPace pace;
  EXPECT_EQ(pace.QueuedRows(kNow), 0u);
  pace.Submitted(7);
  EXPECT_EQ(pace.QueuedRows(kNow), 7u);
  pace.Reported(40, {}, kNow);  // ours are among them, or are being computed
  EXPECT_EQ(pace.QueuedRows(kNow), 40u);
  pace.Submitted(5);
  EXPECT_EQ(pace.QueuedRows(kNow), 45u);
  pace.Answered(7, absl::Milliseconds(1));
  EXPECT_EQ(pace.QueuedRows(kNow), 45u);
  pace.Answered(5, absl::Milliseconds(1));
  EXPECT_EQ(pace.QueuedRows(kNow), 40u);
  EXPECT_EQ(pace.QueuedRows(kNow + 2 * TargetPace::kReportLife), 0u)
      << "an old report of an idle one";
  pace.Submitted(5);
  EXPECT_EQ(pace.QueuedRows(kNow + 2 * TargetPace::kReportLife), 45u)
      << "while we wait there, no news means no progress";
  pace.StreamBegan("", {});
  EXPECT_EQ(pace.QueuedRows(kNow), 0u);
}

TEST(TargetPace, TheCostCurveTellsWhatAStepTakes) {
  TargetPace pace;
  pace.Reported(
      0, {{1, absl::Milliseconds(10)}, {5, absl::Milliseconds(14)}, {100, absl::Milliseconds(109)}},
      kNow);
  EXPECT_EQ(pace.Expected(1, kNow), absl::Milliseconds(10));
  EXPECT_EQ(pace.Expected(3, kNow), absl::Milliseconds(12)) << "between two points";
  EXPECT_EQ(pace.Expected(200, kNow), absl::Milliseconds(109) * 3)
      << "two passes behind one under way";
  pace.Reported(95, {}, kNow);  // the curve stays
  EXPECT_EQ(pace.Expected(5, kNow), absl::Milliseconds(109) * 2) << "behind the queue of others";
  pace.Submitted(5);
  pace.Reported(0, {}, kNow);
  EXPECT_EQ(pace.Expected(5, kNow), absl::Milliseconds(19)) << "behind ours that is being computed";
  pace.Answered(5, absl::Seconds(2));
  EXPECT_EQ(pace.Expected(5, kNow), absl::Seconds(2))
      << "a far target takes what it was measured to take";
}

TEST(TargetPace, AReportIsBelievedUpToALimit) {
  TargetPace pace;
  EXPECT_EQ(pace.Decoding().sequences, 0u);
  EXPECT_EQ(pace.Decoding().draft_tokens, std::nullopt);
  pace.Decodes({UINT32_MAX, UINT32_MAX, UINT32_MAX, std::nan("")});
  EXPECT_EQ(pace.Decoding().sequences, TargetPace::kMaxSequences);
  EXPECT_EQ(pace.Decoding().pass_rows, TargetPace::kMaxSequences);
  EXPECT_EQ(pace.Decoding().pass_sequences, TargetPace::kMaxSequences);
  EXPECT_EQ(pace.Decoding().draft_tokens, std::nullopt);
  for (double no_mean : {-1.0, 1e300, HUGE_VAL}) {
    pace.Decodes({.sequences = 1, .draft_tokens = no_mean});
    EXPECT_EQ(pace.Decoding().draft_tokens, std::nullopt) << no_mean;
  }
  pace.Reported(UINT32_MAX, {{1, absl::Hours(1)}}, kNow);
  EXPECT_EQ(pace.Expected(5, kNow), TargetPace::kMaxReportedTime);
  pace.Submitted(5);
  pace.Answered(5, absl::Milliseconds(10));
  EXPECT_EQ(pace.Expected(5, kNow), TargetPace::kMaxReportedTime);
  pace.StreamBegan("", {});
  pace.Reported(UINT32_MAX, {}, kNow);  // the queue alone
  EXPECT_EQ(pace.Expected(5, kNow), TargetPace::kMaxReportedTime);
}

// A report may say what our own measurements say.
TEST(TargetPace, OwnRowsMayTakeLongerThanReportsMay) {
  constexpr uint32_t kPrefix = 100'000;
  TargetPace pace;
  pace.Submitted(kLong);
  pace.Answered(kLong, absl::Milliseconds(2) * kLong);
  pace.Reported(0, {{1, absl::Milliseconds(2)}, {500, absl::Milliseconds(900)}}, kNow);
  EXPECT_EQ(pace.Expected(kPrefix, kNow), absl::Milliseconds(900) * (kPrefix / 500 + 1))
      << "three minutes by the curve, and more by what was measured";
  pace.Reported(0, {{500, absl::Hours(1)}}, kNow);
  EXPECT_LT(pace.Expected(kPrefix, kNow), absl::Minutes(4)) << "not an hour a pass";
}

TEST(TargetPace, AnswersAreCountedForEachProcessOfTheTarget) {
  TargetPace pace;
  pace.StreamBegan("first", {});
  for (int i = 0; i < 3; ++i) {
    pace.Submitted(5);
    pace.Answered(5, absl::Milliseconds(10));
  }
  pace.Submitted(5);
  pace.Forgotten(5);
  EXPECT_EQ(pace.answers(), 3u) << "a Step without a verdict is no pass that was seen";
  pace.StreamBegan("first", {});
  EXPECT_EQ(pace.answers(), 3u) << "a stream that broke";
  pace.StreamBegan("second", {});
  EXPECT_EQ(pace.answers(), 0u) << "its first passes are slow again";
}

TEST(TargetPace, ACurveThatIsNoneIsIgnored) {
  TargetPace pace;
  const std::vector<TargetPace::CostPoint> good = {{1, absl::Milliseconds(10)},
                                                   {5, absl::Milliseconds(14)}};
  pace.Reported(0, good, kNow);
  pace.Reported(0, {{5, absl::Milliseconds(1)}, {1, absl::Seconds(1)}}, kNow);
  EXPECT_EQ(pace.Expected(3, kNow), absl::Milliseconds(12));
  std::vector<TargetPace::CostPoint> long_one;
  while (long_one.size() <= TargetPace::kMaxCostPoints) {
    long_one.push_back({static_cast<uint32_t>(long_one.size() + 1), absl::Seconds(1)});
  }
  pace.Reported(0, long_one, kNow);
  EXPECT_EQ(pace.Expected(3, kNow), absl::Milliseconds(12));
}

}  // namespace
}  // namespace tandem::orchestrator::target_pace_test
