#include "common/theory/prepared.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::theory {
namespace {

constexpr double kRanks[] = {0.5, 0.3, 0.2};

// Outcomes that are drawn, and how many of them are among the most frequent ones.
double DrawnHits(double alpha, int draft_tokens, size_t outcomes) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::discrete_distribution<int> rank(std::begin(kRanks), std::end(kRanks));
  std::map<std::pair<int, int>, int> counts;
  constexpr int kRounds = 200'000;
  for (int round = 0; round < kRounds; ++round) {
    int accepted = 0;
    bool stands = true;
    while (accepted < draft_tokens && (stands = uniform(random) < alpha)) ++accepted;
    if (stands) stands = uniform(random) < alpha;  // the first token after the block
    ++counts[{accepted, stands ? 0 : 1 + rank(random)}];
  }
  std::vector<int> sorted;
  for (const auto& [outcome, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0;
  for (size_t i = 0; i < std::min(outcomes, sorted.size()); ++i) sum += sorted[i];
  return sum / kRounds;
}

TEST(PreparedTest, HitsAreThoseOfTheLikeliestOutcomes) {
  for (const double alpha : {0.0, 0.3, 0.75, 1.0}) {
    for (const int draft_tokens : {1, 4}) {
      EXPECT_EQ(HitChance(alpha, draft_tokens, 0, kRanks), 0);
      for (const int outcomes : {1, 2, 5, 100}) {
        EXPECT_NEAR(HitChance(alpha, draft_tokens, outcomes, kRanks),
                    DrawnHits(alpha, draft_tokens, outcomes), 0.005)
            << alpha << ", " << draft_tokens << ", " << outcomes;
      }
    }
  }
}

TEST(PreparedTest, WhatIsPreparedInTimeIsNotWaitedFor) {
  const Preparing draft{.round_trip = 1, .draft_token = 2, .row = 0.5};
  // A pass of the last draft token, and K of three rows, which take twice as long.
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 1, /*verify=*/15), 0);
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 1, /*verify=*/14.5), 1);  // late, so it is asked for
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 1, /*verify=*/12), 3);
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 1, /*verify=*/1), 9);  // asked for, after half a pass
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 0.5, /*verify=*/15), 3.5);
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 3, 0.5, /*verify=*/12), 6);
  EXPECT_DOUBLE_EQ(WaitForBlock(draft, 3, 0, 0, /*verify=*/15), 7);
}

// Rounds one by one, as messages travel: on the orchestrator's clock, the target half a way off.
// `prepared`: P of the header. Returns what a round takes on average.
double SimulatedRound(double way, double pass, double prepared, double asked, double hits) {
  std::mt19937 random(1);
  std::bernoulli_distribution hit(hits);
  constexpr int kRounds = 20'000;
  double heard = 0;               // the draft, of the block that is verified
  double ended = way / 2 + pass;  // that block's pass
  for (int round = 0; round < kRounds; ++round) {
    const double read = ended + way / 2;      // its verdict
    const double chained = heard + prepared;  // sent with what it is likely to say
    if (!hit(random)) {
      heard = read + asked;
      ended = heard + way / 2 + pass;
    } else {
      heard = read;
      const double sent = chained <= read + 1e-9 ? chained : read;
      ended = std::max(ended, sent + way / 2) + pass;
    }
  }
  return (ended + way / 2) / kRounds;
}

TEST(PreparedTest, ATargetThatGoesOnByItselfSparesTheWay) {
  for (const double way : {0.0, 10.0, 40.0}) {
    for (const double pass : {5.0, 25.0}) {
      for (const double hits : {0.5, 0.9, 1.0}) {
        const double verify = way + pass;
        for (const double share : {0.2, 0.5, 0.9, 1.0}) {
          // K = 4 and B = 3: after 1 + 4 * 1.5 passes of the draft.
          Preparing draft{.round_trip = 0.5 * share * verify, .row = 0.25};
          draft.draft_token = (share * verify - draft.round_trip) / 7;
          draft.target_round_trip = way;
          const double asked = draft.round_trip + 4 * draft.draft_token;
          const double simulated = SimulatedRound(way, pass, share * verify, asked, hits);
          const double wait = WaitForBlock(draft, 4, 3, hits, verify * (1 + 1e-12));
          EXPECT_NEAR(verify + wait, simulated, 0.01 * simulated)
              << way << ", " << pass << ", " << hits << ", " << share;
        }
      }
    }
  }
}

TEST(PreparedTest, ALongRowOfHitsTakesTheWayEverySecondRound) {
  EXPECT_DOUBLE_EQ(SparedByChaining(/*target_round_trip=*/40, 30, /*hits=*/1, /*verify=*/65),
                   65 - (25 + 40 + 30) / 2.0);
  EXPECT_DOUBLE_EQ(SparedByChaining(40, 15, 1, 100), 40) << "prepared, and there, within a pass";
  EXPECT_DOUBLE_EQ(SparedByChaining(40, 100, 1, 100), 0);
  EXPECT_DOUBLE_EQ(SparedByChaining(0, 30, 0.7, 65), 0);
}

TEST(PreparedTest, TheDraftsOwnSpeedIsABound) {
  const auto best = [](double draft_ms, int max_outcomes) {
    const RoundTimes times{*PassTime::Create({{1, 7000}, {17, 7000}}), draft_ms * 1000, 500};
    return OptimalPrepared(times, 0.1, /*chained=*/false, 0.75, 16, max_outcomes);
  };
  EXPECT_GT(best(3, 16).speed, 1.4) << "in lockstep 1.2";
  EXPECT_LT(best(5, 16).speed, 1.2) << "two passes of the draft take longer than one of the target";
  EXPECT_EQ(best(5, 2).outcomes, best(5, 16).outcomes);
  EXPECT_GT(best(1, 16).outcomes, 4);
  EXPECT_LT(best(1, 2).speed, best(1, 16).speed);
}

TEST(PreparedTest, MeasuredRanksAreChances) {
  double sum = 0;
  for (const double rank : MeasuredRanks()) sum += rank;
  EXPECT_LT(sum, 1);
  EXPECT_GT(sum, 0.9);
}

}  // namespace
}  // namespace tandem::theory
