#include "target_service/pass_policy.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::target_service {
namespace {

int Rows(const std::vector<Grant>& grants) {
  int rows = 0;
  for (const Grant& grant : grants) rows += grant.rows;
  return rows;
}

TEST(PassPolicy, RoundsGoTogether) {
  std::vector<WaitingRows> waiting = {{1, 5}, {0, 9}, {3, 1}};
  std::vector<Grant> grants = FormPass(waiting, {});
  ASSERT_EQ(grants.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(grants[i].index, i);
    EXPECT_EQ(grants[i].rows, waiting[i].total());
  }
}

TEST(PassPolicy, LongPromptAloneTakesAllRows) {
  EXPECT_EQ(Rows(FormPass(std::vector<WaitingRows>{{5000, 1}}, {512, 128, 34})), 512);
  EXPECT_EQ(Rows(FormPass(std::vector<WaitingRows>{{300, 1}}, {512, 128, 34})), 301);
}

TEST(PassPolicy, LongPromptTakesItsShareBesideRounds) {
  std::vector<Grant> grants = FormPass(std::vector<WaitingRows>{{5000, 1}, {1, 5}}, {512, 128, 34});
  ASSERT_EQ(grants.size(), 2u);
  EXPECT_EQ(grants[0].index, 1u);
  EXPECT_EQ(grants[0].rows, 6);
  EXPECT_EQ(grants[1].index, 0u);
  EXPECT_EQ(grants[1].rows, 128);
}

TEST(PassPolicy, RoundsLeaveAPromptItsShare) {
  std::vector<WaitingRows> waiting(100, WaitingRows{1, 16});
  waiting.push_back({5000, 1});
  std::vector<Grant> grants = FormPass(waiting, {512, 128, 34});
  EXPECT_EQ(grants.back().index, 100u);
  EXPECT_EQ(grants.back().rows, 128);
  EXPECT_LE(Rows(grants), 512);
}

TEST(PassPolicy, VerifyRowsAreNeverCut) {
  // 40 prefill rows and 17 to verify: with 50 rows a pass only the prefill may be cut.
  std::vector<WaitingRows> waiting = {{40, 17}};
  std::vector<Grant> grants = FormPass(waiting, {50, 128, 34});
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].rows, 40);
}

// Whatever waits: rows within bounds, nothing granted twice, verify rows whole, and all of it ends.
TEST(PassPolicy, EverythingEnds) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int most_rows = 17 + static_cast<int>(random() % 100);
    const PassLimits limits{most_rows, 1 + static_cast<int>(random() % 128), 34};
    std::vector<WaitingRows> waiting(1 + random() % 20);
    for (WaitingRows& work : waiting) {
      work = {static_cast<int>(random() % 300), static_cast<int>(random() % 18)};
      if (work.total() == 0) work.verify = 1;
    }
    int passes = 0;
    while (!waiting.empty()) {
      ASSERT_LT(++passes, 5000);
      std::vector<Grant> grants = FormPass(waiting, limits);
      ASSERT_FALSE(grants.empty());
      ASSERT_LE(Rows(grants), most_rows);
      std::vector<bool> seen(waiting.size());
      for (const Grant& grant : grants) {
        ASSERT_FALSE(seen[grant.index]);
        seen[grant.index] = true;
        WaitingRows& work = waiting[grant.index];
        ASSERT_GE(grant.rows, 1);
        ASSERT_TRUE(grant.rows == work.total() || grant.rows <= work.prefill);
        if (grant.rows == work.total()) {
          work = {0, 0};
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
