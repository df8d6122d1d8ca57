#include "target_service/passes/pass_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace tandem::target_service {
namespace {

using base::SequenceId;
using base::StreamId;

using scheduling::CostCurve;

int Rows(const std::vector<Grant>& grants) {
  int rows = 0;
  for (const Grant& grant : grants) rows += grant.rows;
  return rows;
}

int RowsOf(size_t index, const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    if (grant.index == index) return grant.rows;
  }
  return 0;
}

WaitingRows Waiting(uint64_t stream, uint64_t sequence, int prefill, int verify) {
  return {StreamId{stream}, SequenceId{sequence}, prefill, verify};
}

std::vector<WaitingRows> Rounds(uint64_t stream, uint64_t count, int rows) {
  std::vector<WaitingRows> waiting;
  for (uint64_t i = 0; i < count; ++i) waiting.push_back(Waiting(stream, i, 1, rows - 1));
  return waiting;
}

// Nothing measured: a pass takes all that the model can.
const CostCurve kUnknown(512);

// `base` and one for each row.
CostCurve Linear(double base, absl::Duration row = absl::Microseconds(100)) {
  CostCurve curve(512);
  for (int rows = 1; rows <= 512; rows *= 2) {
    curve.Observe(rows, row * (base + rows));
  }
  return curve;
}

TEST(PassPolicy, RoundsGoTogether) {
  PassPolicy policy({});
  std::vector<WaitingRows> waiting = {Waiting(1, 1, 1, 5), Waiting(1, 2, 0, 9),
                                      Waiting(2, 1, 3, 1)};
  std::vector<Grant> grants = policy.FormPass(waiting, kUnknown, 2);
  ASSERT_EQ(grants.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(RowsOf(i, grants), waiting[i].total());
}

TEST(PassPolicy, LongPromptAloneTakesAllRows) {
  PassPolicy policy({});
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{Waiting(1, 1, 5000, 1)}, kUnknown, 1)),
            512);
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{Waiting(1, 1, 300, 1)}, kUnknown, 1)),
            301);
}

TEST(PassPolicy, WhatMayTakeOnlySomeRowsOfAPassTakesThose) {
  PassPolicy policy({});
  WaitingRows capped = Waiting(1, 1, 5000, 1);
  capped.max_prefill = 64;
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{capped}, kUnknown, 1)), 64);
  capped.prefill = 65;
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{capped}, kUnknown, 1)), 64);
  capped.prefill = 64;
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{capped}, kUnknown, 1)), 65);
  // Others take what it leaves, and it takes no more for being alone in its stream.
  capped.prefill = 5000;
  const std::vector<Grant> grants =
      policy.FormPass(std::vector<WaitingRows>{capped, Waiting(2, 1, 5000, 1)}, kUnknown, 2);
  EXPECT_EQ(RowsOf(0, grants), 64);
  EXPECT_EQ(RowsOf(1, grants), 512 - 64);
}

// A pass is filled up to a bucket anyway, so the rows up to its end are worth while, whatever they
// cost.
TEST(PassPolicy, APassAimsAtAWholeBucket) {
  const CostCurve curve = Linear(0);
  const std::vector<WaitingRows> waiting = Rounds(1, 60, 2);
  PassLimits limits;
  const int without = Rows(PassPolicy(limits).FormPass(waiting, curve, 1));
  ASSERT_LT(without, 40);
  limits.row_buckets = {1, 2, without, 2 * without, 512};
  EXPECT_EQ(Rows(PassPolicy(limits).FormPass(waiting, curve, 1)), without);
  limits.row_buckets = {1, 2, without + 16, 512};
  EXPECT_EQ(Rows(PassPolicy(limits).FormPass(waiting, curve, 1)), without + 16);
  limits.pass_rows = 10;
  EXPECT_EQ(Rows(PassPolicy(limits).FormPass(waiting, curve, 1)), 10) << "as it was told";
}

TEST(PassPolicy, LongPromptTakesItsShareBesideRounds) {
  PassPolicy policy({});
  const std::vector<WaitingRows> waiting = {Waiting(1, 1, 5000, 1), Waiting(1, 2, 1, 5)};
  std::vector<Grant> grants = policy.FormPass(waiting, kUnknown, 1);
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_EQ(grants[0].index, 1u);
  EXPECT_EQ(grants[0].rows, 6);
  EXPECT_EQ(grants[1].index, 0u);
  EXPECT_EQ(grants[1].rows, 128);
  // The round will be back in a moment: it must not find a pass of 512 rows running.
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{waiting[0]}, kUnknown, 1)), 128);
  }
  EXPECT_EQ(Rows(policy.FormPass(std::vector<WaitingRows>{waiting[0]}, kUnknown, 1)), 512);
}

TEST(PassPolicy, RoundsLeaveAPromptItsShare) {
  PassPolicy policy({});
  std::vector<WaitingRows> waiting = Rounds(1, 100, 17);
  waiting.push_back(Waiting(1, 1000, 5000, 1));
  std::vector<Grant> grants = policy.FormPass(waiting, kUnknown, 1);
  EXPECT_GE(RowsOf(100, grants), 128);
  EXPECT_LE(Rows(grants), 512);
}

// Whatever its size: a pass of a single round must not keep a prompt out for ever.
TEST(PassPolicy, PromptProgressesBesideRoundsAsLargeAsAPass) {
  PassPolicy policy({.max_rows = 17});
  const std::vector<WaitingRows> waiting = {Waiting(1, 1, 0, 17), Waiting(1, 2, 0, 17),
                                            Waiting(2, 1, 5000, 1)};
  int prompt = 0;
  int rounds = 0;
  for (int pass = 0; pass < 20; ++pass) {
    std::vector<Grant> grants = policy.FormPass(waiting, kUnknown, 2);
    EXPECT_LE(Rows(grants), 17);
    prompt += RowsOf(2, grants);
    rounds += RowsOf(0, grants) + RowsOf(1, grants);
  }
  EXPECT_GE(prompt, 20);
  EXPECT_GE(rounds, 17 * 5);
}

TEST(PassPolicy, VerifyRowsAreNeverCut) {
  // 40 prefill rows and 17 to verify: with 50 rows per pass only the prefill may be cut.
  PassPolicy policy({.max_rows = 50});
  std::vector<Grant> grants =
      policy.FormPass(std::vector<WaitingRows>{Waiting(1, 1, 40, 17)}, kUnknown, 1);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].rows, 40);
}

// The contract of several orchestrators: one request beside 64 of another one.
TEST(PassPolicy, LoneRoundGetsIntoTheNextPass) {
  for (double base : {0.0, 8.0, 1000.0}) {
    const CostCurve curve = Linear(base);
    PassPolicy policy({});
    std::vector<WaitingRows> waiting = Rounds(1, 64, 6);
    for (const WaitingRows& prompt : {Waiting(1, 70, 3000, 1), Waiting(1, 71, 3000, 1)}) {
      waiting.push_back(prompt);
    }
    for (int pass = 0; pass < 50; ++pass) {
      // It comes and goes.
      if (pass % 3 == 0) {
        waiting.push_back(Waiting(2, 1, 1, 5));
        EXPECT_EQ(RowsOf(66, policy.FormPass(waiting, curve, 2)), 6) << base << ", " << pass;
        waiting.pop_back();
      } else {
        policy.FormPass(waiting, curve, 2);
      }
    }
  }
}

TEST(PassPolicy, RowsOfAPassFollowTheCostCurve) {
  const std::vector<WaitingRows> waiting = Rounds(1, 64, 6);
  auto rows = [&waiting](const CostCurve& curve, int streams, int pass_rows = 0) {
    PassPolicy policy({.pass_rows = pass_rows});
    return Rows(policy.FormPass(waiting, curve, streams));
  };
  // As long as the time hardly grows, all goes at once, whoever competes.
  EXPECT_EQ(rows(Linear(1e6), 1), 384);
  EXPECT_EQ(rows(Linear(1e6), 2), 384);
  // 8 + R, the best is 1.016 per row: within half at 16 rows. For one stream what a pass costs
  // besides is counted, here 5 more: within an eighth at 85.
  EXPECT_NEAR(rows(Linear(8), 1), 85, 6);
  EXPECT_NEAR(rows(Linear(8), 2), 16, 4);
  EXPECT_NEAR(rows(Linear(40), 2), 65, 6);
  // Four rounds of one stream and two of several at least, whatever the curve.
  EXPECT_EQ(rows(Linear(0, absl::Milliseconds(10)), 1), 24);
  EXPECT_EQ(rows(Linear(0, absl::Milliseconds(10)), 2), 12);
  EXPECT_EQ(rows(Linear(0), 2), 12);
  // Or as told.
  EXPECT_EQ(rows(Linear(0), 1, 100), 96);
  EXPECT_EQ(rows(Linear(1e6), 1, 10), 6);
  EXPECT_EQ(rows(Linear(1e6), 1, 5), 6) << "one goes whatever it takes";
}

TEST(PassPolicy, PromptsFillWhatTheCurveLeaves) {
  PassPolicy policy({});
  std::vector<WaitingRows> waiting = {Waiting(1, 1, 1, 5), Waiting(1, 2, 3000, 1)};
  std::vector<Grant> grants = policy.FormPass(waiting, Linear(40), 1);
  EXPECT_EQ(RowsOf(0, grants), 6);
  EXPECT_NEAR(Rows(grants), 67, 5);
}

TEST(PassPolicy, PriorityIsAShareWithinAStream) {
  PassPolicy policy({.pass_rows = 12});
  std::vector<WaitingRows> waiting = Rounds(1, 8, 6);
  waiting[3].priority = 10;
  std::map<size_t, int> rows;
  for (int pass = 0; pass < 900; ++pass) {
    for (const Grant& grant : policy.FormPass(waiting, kUnknown, 1))
      rows[grant.index] += grant.rows;
  }
  EXPECT_GE(rows[3], 3 * rows[0]);
  EXPECT_GT(rows[0], 900 * 12 / 40);
  EXPECT_NEAR(rows[0], rows[7], 0.1 * rows[0]);
}

// Whatever waits: rows within bounds, nothing granted twice, verify rows whole, and all of it ends.
TEST(PassPolicy, EverythingEnds) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int max_rows = 17 + static_cast<int>(random() % 100);
    PassPolicy policy(
        {max_rows, static_cast<int>(random() % 60), 1 + static_cast<int>(random() % 128), 34});
    const CostCurve curve = Linear(static_cast<double>(random() % 100));
    std::vector<WaitingRows> waiting(1 + random() % 20);
    uint64_t sequence = 0;
    for (WaitingRows& work : waiting) {
      work = {StreamId{1 + random() % 3}, SequenceId{++sequence}, static_cast<int>(random() % 300),
              static_cast<int>(random() % 18), static_cast<uint32_t>(random() % 11)};
      if (work.total() == 0) work.verify = 1;
    }
    int passes = 0;
    while (!waiting.empty()) {
      ASSERT_LT(++passes, 5000);
      std::vector<Grant> grants =
          policy.FormPass(waiting, curve, 1 + static_cast<int>(random() % 3));
      ASSERT_FALSE(grants.empty());
      ASSERT_LE(Rows(grants), max_rows);
      std::vector<bool> seen(waiting.size());
      for (const Grant& grant : grants) {
        ASSERT_FALSE(seen[grant.index]);
        seen[grant.index] = true;
        WaitingRows& work = waiting[grant.index];
        ASSERT_GE(grant.rows, 1);
        ASSERT_TRUE(grant.rows == work.total() || grant.rows <= work.prefill);
        if (grant.rows == work.total()) {
          work.prefill = work.verify = 0;
        } else {
          work.prefill -= grant.rows;
        }
      }
      std::erase_if(waiting, [](const WaitingRows& work) { return work.total() == 0; });
    }
  }
}

}  // namespace
}  // namespace tandem::target_service
