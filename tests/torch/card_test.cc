// What a card's measurements decide: rows of a tile, pages of the cache.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "torch/card.h"

namespace tandem::torch {
namespace {

using ::testing::HasSubstr;

std::vector<TileCost> Costs(std::vector<double> milliseconds) {
  std::vector<TileCost> costs;
  for (size_t i = 0; i < milliseconds.size(); ++i) {
    costs.push_back({kTiles[i], absl::Milliseconds(milliseconds[i])});
  }
  return costs;
}

TEST(TileChoiceTest, TheLargestThatReadingTheWeightsHides) {
  EXPECT_EQ(ChooseTile(Costs({3.8, 3.8, 3.9, 5.2})), 192);  // 8B in bf16, computed for an H200
  EXPECT_EQ(ChooseTile(Costs({9.0, 9.0, 9.0, 9.0})), 256);  // arithmetic is plentiful
  EXPECT_EQ(ChooseTile(Costs({2.0, 3.9, 5.8, 7.7})), 64);   // it is scarce
  EXPECT_EQ(ChooseTile(Costs({4.2, 4.0, 4.19, 4.3})), 192);
  EXPECT_EQ(ChooseTile(Costs({4.0, 4.3, 4.1, 8.0})), 192) << "a tile may suit the card badly";
  EXPECT_EQ(ChooseTile(Costs({4.0})), 64);
  EXPECT_EQ(TileCostsText(Costs({3.8, 4})), "64:3800,128:4000");
}

TEST(CacheSizeTest, WhatIsLeftInWholePages) {
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  CardRoom room;
  room.free_bytes = 100 * kGibibyte;
  room.utilization = 0.9;
  room.weight_bytes = 16 * kGibibyte;
  room.max_rows = 256;
  room.pass_bytes = kGibibyte;
  room.page_bytes = kGibibyte / 32;  // 128 KiB per token
  EXPECT_EQ(*PagesThatFit(room, 32), (90 - 16 - 1 - 1) * 32 - 1);
  room.utilization = 0.5;
  EXPECT_EQ(*PagesThatFit(room, 32), (50 - 16 - 1 - 1) * 32 - 1);
  const int all = *PagesThatFit(room, 32);
  EXPECT_EQ(*PagesThatFit(room, all), all);
  for (const auto& [free, least] : {std::pair{100, all + 1}, std::pair{20, 1}}) {
    room.free_bytes = free * kGibibyte;
    const auto pages = PagesThatFit(room, least);
    EXPECT_EQ(pages.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(pages.status().message(),
                HasSubstr("the weights take 16.0 GiB, a pass of 256 rows 1.0"));
    EXPECT_THAT(pages.status().message(),
                HasSubstr("--max-rows a smaller pass, --gpu-memory-util"));
    // One page more than there are; or with 10 GiB usable, 16 + 1 + 1 and two pages.
    EXPECT_THAT(std::string(pages.status().message()),
                ::testing::StartsWith(free == 100 ? "0.0 GiB are missing" : "8.1 GiB are missing"));
  }
}

}  // namespace
}  // namespace tandem::torch
