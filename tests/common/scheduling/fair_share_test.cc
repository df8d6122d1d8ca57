#include "common/scheduling/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace tandem::scheduling {
namespace {

using Item = FairShare::Item;
using Grant = FairShare::Grant;

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

// Rows of each group over many passes in which the same items always wait.
std::map<uint64_t, int> RowsOfGroups(FairShare& share, const std::vector<Item>& waiting,
                                     int max_rows, int passes) {
  std::map<uint64_t, int> rows;
  for (int pass = 0; pass < passes; ++pass) {
    for (const Grant& grant : share.Pick(waiting, max_rows)) {
      rows[waiting[grant.index].group] += grant.rows;
    }
  }
  return rows;
}

std::vector<Item> Blocks(uint64_t group, uint64_t members, int rows) {
  std::vector<Item> items;
  for (uint64_t member = 0; member < members; ++member) items.push_back({group, member, rows});
  return items;
}

TEST(FairShare, AllGoesThatFits) {
  FairShare share;
  const std::vector<Item> waiting = {{1, 1, 5}, {1, 2, 9, 3}, {2, 1, 0, 40}};
  const std::vector<Grant> grants = share.Pick(waiting, 57);
  EXPECT_EQ(grants.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(RowsOf(i, grants), waiting[i].total());
  EXPECT_TRUE(share.Pick({}, 57).empty());
  EXPECT_TRUE(share.Pick(waiting, 0).empty());
}

TEST(FairShare, ManyMembersGetNoMoreThanOneThatAlwaysHasWork) {
  FairShare share;
  std::vector<Item> waiting = Blocks(1, 64, 5);
  waiting.push_back({2, 7, 1, 100000});
  std::map<uint64_t, int> rows = RowsOfGroups(share, waiting, 64, 300);
  EXPECT_NEAR(rows[2], rows[1], 0.03 * rows[1]);
  EXPECT_GT(rows[1] + rows[2], 300 * 60);
}

// The smaller ones may fill what a large one leaves of a pass, and pay for it.
TEST(FairShare, SizesOfBlocksHardlyMatter) {
  for (int max_rows : {20, 34, 51, 64, 100}) {
    FairShare share;
    std::vector<Item> waiting = Blocks(1, 64, 5);
    for (const Item& item : Blocks(2, 64, 17)) waiting.push_back(item);
    std::map<uint64_t, int> rows = RowsOfGroups(share, waiting, max_rows, 1000);
    EXPECT_NEAR(rows[1], rows[2], 0.05 * rows[1]) << max_rows;
    EXPECT_GT(rows[1] + rows[2], 1000 * (max_rows - 17)) << max_rows;
  }
}

// Whatever was done before: three blocks' worth of rows are enough.
TEST(FairShare, LoneBlockGetsIntoTheNextPass) {
  for (int heavy_rows : {1, 5, 17}) {
    for (int before = 0; before < 40; ++before) {
      FairShare share;
      std::vector<Item> waiting = Blocks(1, 64, heavy_rows);
      const int max_rows = 3 * std::max(heavy_rows, 5);
      for (int pass = 0; pass < before; ++pass) share.Pick(waiting, max_rows);
      waiting.push_back({2, 1, 5});
      EXPECT_EQ(RowsOf(64, share.Pick(waiting, max_rows)), 5)
          << before << " passes of blocks of " << heavy_rows;
    }
  }
}

TEST(FairShare, LoneBlockIsNotHeldUpByPrompts) {
  FairShare share;
  std::vector<Item> waiting;
  for (uint64_t member = 0; member < 8; ++member) waiting.push_back({1, member, 1, 5000});
  for (int pass = 0; pass < 9; ++pass) share.Pick(waiting, 32);
  waiting.push_back({2, 1, 5});
  EXPECT_EQ(RowsOf(8, share.Pick(waiting, 32)), 5);
}

TEST(FairShare, WeightsShareAGroupAndNoMore) {
  for (int rows : {1, 4, 9}) {
    FairShare share;
    const std::vector<Item> waiting = {{1, 1, rows, 0, 1}, {1, 2, rows, 0, 3}, {2, 1, rows, 0, 1}};
    std::map<std::pair<uint64_t, uint64_t>, int> got;
    for (int pass = 0; pass < 4000; ++pass) {
      for (const Grant& grant : share.Pick(waiting, rows)) {
        got[{waiting[grant.index].group, waiting[grant.index].member}] += grant.rows;
      }
    }
    const double all = 4000.0 * rows;
    EXPECT_NEAR((got[{2, 1}]) / all, 0.5, 0.01) << rows;
    EXPECT_NEAR((got[{1, 2}]) / all, 0.375, 0.02) << rows;
    EXPECT_NEAR((got[{1, 1}]) / all, 0.125, 0.02) << rows;
  }
}

TEST(FairShare, WeightsShareWhatIsDivisibleToo) {
  FairShare share(4);
  const std::vector<Item> waiting = {{1, 1, 0, 1 << 20, 1}, {1, 2, 0, 1 << 20, 3}};
  int light = 0;
  int heavy = 0;
  for (int pass = 0; pass < 500; ++pass) {
    const std::vector<Grant> grants = share.Pick(waiting, 30);
    EXPECT_EQ(Rows(grants), 30);
    light += RowsOf(0, grants);
    heavy += RowsOf(1, grants);
  }
  EXPECT_NEAR(heavy, 3.0 * light, 0.05 * heavy);
}

TEST(FairShare, IdleGroupSavesNothingUp) {
  FairShare share;
  std::vector<Item> both = Blocks(1, 64, 5);
  for (const Item& item : Blocks(2, 64, 5)) both.push_back(item);
  const std::vector<Item> one = Blocks(1, 64, 5);
  share.Pick(both, 40);
  for (int pass = 0; pass < 1000; ++pass) share.Pick(one, 40);
  std::map<uint64_t, int> rows = RowsOfGroups(share, both, 40, 10);
  EXPECT_NEAR(rows[1], rows[2], 20);
}

TEST(FairShare, QuantumMakesLargerPieces) {
  FairShare fine(1);
  FairShare coarse(64);
  const std::vector<Item> prompts = {{1, 1, 1, 1000}, {1, 2, 1, 1000}, {1, 3, 1, 1000}};
  EXPECT_EQ(fine.Pick(prompts, 60).size(), 3u);
  EXPECT_EQ(coarse.Pick(prompts, 60).size(), 1u);
}

TEST(FairShare, FirstAlwaysFitsUnlessToldOtherwise) {
  FairShare share;
  const std::vector<Item> waiting = {{1, 1, 17}};
  EXPECT_TRUE(share.Pick(waiting, 10, 0).empty());
  EXPECT_EQ(Rows(share.Pick(waiting, 10)), 17);
  // With one divisible row before them the 17 come a pass later.
  const std::vector<Item> prompt = {{1, 1, 17, 1}};
  EXPECT_EQ(Rows(share.Pick(prompt, 10)), 1);
}

TEST(FairShare, SureItemsGoBeyondTheRows) {
  FairShare share;
  EXPECT_EQ(share.Pick(Blocks(1, 9, 6), 1, 3).size(), 3u);
  EXPECT_EQ(share.Pick(Blocks(1, 9, 6), 23, 3).size(), 3u);
  EXPECT_EQ(share.Pick(Blocks(1, 9, 6), 24, 3).size(), 4u);
  EXPECT_EQ(share.Pick(Blocks(1, 9, 6), 1, 3, 17).size(), 2u) << "but never beyond the most";
  EXPECT_TRUE(share.Pick(Blocks(1, 9, 6), 1, 3, 5).empty());
  // What is divisible takes no more than there is.
  const std::vector<Item> prompts = {{1, 1, 1, 100}, {2, 1, 1, 100}};
  EXPECT_EQ(Rows(share.Pick(prompts, 10, 3)), 10);
}

// One that is no larger gets in beside another group's.
TEST(FairShare, ThreeSureItemsLetALoneOneIn) {
  for (int heavy_rows : {1, 5, 17}) {
    for (int lone_rows : {1, 5, 17}) {
      if (lone_rows > heavy_rows) continue;
      for (int before = 0; before < 40; ++before) {
        FairShare share;
        std::vector<Item> waiting = Blocks(1, 64, heavy_rows);
        for (const Item& item : Blocks(3, 64, 4)) waiting.push_back(item);
        for (int pass = 0; pass < before; ++pass) share.Pick(waiting, 1, 3);
        waiting.resize(64);  // the third group is gone
        waiting.push_back({2, 1, lone_rows});
        EXPECT_EQ(RowsOf(64, share.Pick(waiting, 1, 3)), lone_rows)
            << lone_rows << " beside " << heavy_rows << ", pass " << before;
      }
    }
  }
}

// The one that did not fit goes first, though smaller ones filled the pass.
TEST(FairShare, OvertakenOnce) {
  FairShare share;
  std::vector<Item> waiting = Blocks(1, 20, 3);
  waiting.push_back({2, 1, 16});
  bool went = false;
  for (int pass = 0; pass < 3 && !went; ++pass) {
    went = RowsOf(20, share.Pick(waiting, 16)) == 16;
  }
  EXPECT_TRUE(went);
}

// 30 members of weight 11 always wait: the one of weight 1 gets its 1/331 of the rows nevertheless.
TEST(FairShare, LeastWeightIsServedToo) {
  FairShare share;
  std::vector<Item> waiting = Blocks(1, 30, 17);
  for (Item& item : waiting) item.weight = 11;
  waiting.push_back({1, 99, 17, 0, 1});
  int served = 0;
  for (int pass = 0; pass < 2000; ++pass) served += RowsOf(30, share.Pick(waiting, 34)) / 17;
  EXPECT_GE(served, 2000 * 34 / 17 / 331 - 1);
  EXPECT_LE(served, 2000 * 34 / 17 / 331 + 2);
}

// Random items come and go: what is granted keeps to the rules, and nobody waits for ever.
TEST(FairShare, PropertiesOfRandomPasses) {
  std::mt19937 random(11);
  auto pick = [&random](int min, int max) {
    return std::uniform_int_distribution<int>(min, max)(random);
  };
  for (int trial = 0; trial < 60; ++trial) {
    FairShare share(pick(1, 40));
    const int max_rows = pick(1, 80);
    const int groups = pick(1, 6);
    std::vector<Item> waiting;
    std::map<std::pair<uint64_t, uint64_t>, int> waited;  // passes without a row
    for (int pass = 0; pass < 400; ++pass) {
      for (int arrivals = pick(0, 4); arrivals > 0 && waiting.size() < 30; --arrivals) {
        Item item{static_cast<uint64_t>(pick(1, groups)), static_cast<uint64_t>(pick(1, 9)),
                  pick(0, 20), pick(0, 3) == 0 ? pick(1, 200) : 0, pick(1, 11)};
        if (item.total() == 0) item.indivisible = 1;
        const bool taken = std::any_of(waiting.begin(), waiting.end(), [&item](const Item& other) {
          return other.group == item.group && other.member == item.member;
        });
        if (!taken) waiting.push_back(item);
      }
      const std::vector<Grant> grants = share.Pick(waiting, max_rows);
      ASSERT_EQ(grants.empty(), waiting.empty());
      ASSERT_TRUE(grants.size() <= 1 || Rows(grants) <= max_rows);
      std::vector<bool> seen(waiting.size());
      for (const Item& item : waiting) ++waited[{item.group, item.member}];
      for (const Grant& grant : grants) {
        ASSERT_FALSE(seen[grant.index]);
        seen[grant.index] = true;
        Item& item = waiting[grant.index];
        ASSERT_GE(grant.rows, 1);
        ASSERT_TRUE(grant.rows == item.total() || grant.rows <= item.divisible);
        ASSERT_TRUE(grant.rows <= max_rows || grant.rows == item.indivisible);
        waited[{item.group, item.member}] = 0;
        if (grant.rows == item.total()) {
          item.divisible = item.indivisible = 0;
        } else {
          item.divisible -= grant.rows;
        }
      }
      // A row of weight 1 waits for 11 rows of every other member, of which there are 9 per group.
      for (const auto& [who, passes] : waited) {
        ASSERT_LE((passes - 1) * max_rows, 20 * 11 * 9 * groups) << "starved";
      }
      std::erase_if(waiting, [](const Item& item) { return item.total() == 0; });
    }
    for (int pass = 0; !waiting.empty(); ++pass) {
      ASSERT_LT(pass, 10000);
      for (const Grant& grant : share.Pick(waiting, max_rows)) {
        Item& item = waiting[grant.index];
        if (grant.rows == item.total()) {
          item.divisible = item.indivisible = 0;
        } else {
          item.divisible -= grant.rows;
        }
      }
      std::erase_if(waiting, [](const Item& item) { return item.total() == 0; });
    }
  }
}

}  // namespace
}  // namespace tandem::scheduling
