#include "torch/graphs/attention_lists.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "torch/kernels/attention.h"

namespace tandem::torch {
namespace {

using kernels::CacheRow;
using ::testing::ElementsAre;

InputSizes SizesOfTile(int tile) {
  InputSizes sizes;
  sizes.tile = tile;
  sizes.max_rows = 16;
  sizes.max_pages = 4;
  sizes.scratch_page = 99;
  return sizes;
}

// Two sequences: a chain beyond a page, and a tree whose branch leaves the straight cells.
struct TestPass {
  std::vector<uint32_t> first = {7, 3}, second = {5};
  std::vector<const uint32_t*> pages = {first.data(), second.data()};
  std::vector<int> branch = {12, 15};
  std::vector<Row> rows;
  std::vector<int> wanted = {0};

  TestPass() {
    Row chain;
    chain.position = chain.cell = 300;
    chain.visible = chain.straight = 301;
    rows.push_back(chain);
    Row node;
    node.part = 1;
    node.position = 11;
    node.cell = 15;
    node.visible = 12;
    node.straight = 10;
    node.rest = branch.data();
    rows.push_back(node);
  }
  PassRows pass() const { return {rows, pages, wanted}; }
};

// The cell of a position that a row sees, in the whole cache, as the kernels find it.
uint32_t PlaceOf(const AttentionLists& lists, const CacheRow& row, uint32_t position) {
  const uint32_t cell =
      position < row.straight ? position : lists.words[row.first_rest + position - row.straight];
  return lists.words[row.first_page + cell / kPageTokens] * kPageTokens + cell % kPageTokens;
}

TEST(AttentionListsTest, RowsFindTheirCellsAndPartialsTheirRows) {
  const TestPass test;
  AttentionLists lists;
  MakeAttentionLists(test.pass(), SizesOfTile(4), lists);
  ASSERT_EQ(lists.rows.size(), 4u);
  const CacheRow& chain = lists.rows[0];
  const CacheRow& node = lists.rows[1];
  EXPECT_EQ(PlaceOf(lists, chain, 17), 7u * kPageTokens + 17);
  EXPECT_EQ(PlaceOf(lists, chain, 300), 3u * kPageTokens + 300 - kPageTokens);
  EXPECT_EQ(PlaceOf(lists, node, 9), 5u * kPageTokens + 9);
  EXPECT_EQ(PlaceOf(lists, node, 10), 5u * kPageTokens + 12);
  EXPECT_EQ(PlaceOf(lists, node, 11), 5u * kPageTokens + 15);
  EXPECT_EQ(node.cell, 15u);
  EXPECT_EQ(node.position, 11u);
  ASSERT_EQ(chain.partials, 2u);
  ASSERT_EQ(node.partials, 1u);
  for (uint32_t number = 0; number < 2; ++number) {
    const CacheRow& row = lists.rows[number];
    for (uint32_t i = 0; i < row.partials; ++i) {
      EXPECT_EQ(lists.words[row.first_partial + i], number);
    }
  }
}

TEST(AttentionListsTest, RowsThatFillUpHaveTheScratchPageAndNoPartials) {
  const TestPass test;
  AttentionLists lists, empty;
  MakeAttentionLists(test.pass(), SizesOfTile(4), lists);
  MakeEmptyLists(8, SizesOfTile(4), empty);
  ASSERT_EQ(empty.rows.size(), 8u);
  for (const auto* all : {&lists, &empty}) {
    for (size_t i = all == &lists ? 2 : 0; i < all->rows.size(); ++i) {
      const CacheRow& row = all->rows[i];
      EXPECT_EQ(all->words[row.first_page], 99u);
      EXPECT_EQ(row.cell, 0u);
      EXPECT_EQ(row.partials, 0u);
      // A launch's partials are those between its first row and its last one.
      EXPECT_EQ(row.first_partial, all == &lists ? 3u : 0u);
    }
  }
}

TEST(AttentionListsTest, UsualPassesFitTheirPlace) {
  const InputSizes sizes = SizesOfTile(4);
  const std::vector<uint32_t> pages = {1, 2, 3, 4};
  std::vector<int> path;
  for (int i = 0; i < 64; ++i) path.push_back(900 + i);
  std::vector<Row> rows;
  std::vector<const uint32_t*> lists_of_pages;
  for (int i = 0; i < sizes.max_rows; ++i) {
    Row row;
    row.part = i;
    row.visible = 1024;
    row.straight = 1024 - 64;
    row.rest = path.data();
    rows.push_back(row);
    lists_of_pages.push_back(pages.data());
  }
  AttentionLists lists;
  MakeAttentionLists({rows, lists_of_pages, {}}, sizes, lists);
  EXPECT_LE(lists.words.size(), UsualWords(sizes.max_rows, sizes));
}

TEST(AttentionListsTest, ATileIsCutWhereItsPartialsHaveNoRoom) {
  std::vector<CacheRow> rows(6);
  const uint32_t partials[] = {9, 2, 2, 3, 7, 0};
  for (size_t i = 0; i < rows.size(); ++i) rows[i].partials = partials[i];
  const auto counts = [&](size_t first, size_t count, uint32_t max_partials) {
    std::vector<size_t> sizes;
    size_t next = first;
    for (const RowRange& range : CutTile(rows, first, count, max_partials)) {
      EXPECT_EQ(range.first, next);
      next += range.count;
      sizes.push_back(range.count);
    }
    EXPECT_EQ(next, first + count);
    return sizes;
  };
  EXPECT_THAT(counts(0, 6, 23), ElementsAre(6));
  EXPECT_THAT(counts(0, 6, 22), ElementsAre(4, 2));
  EXPECT_THAT(counts(0, 6, 7), ElementsAre(1, 3, 2)) << "the first row has more by itself";
  EXPECT_THAT(counts(1, 3, 4), ElementsAre(2, 1));
}

}  // namespace
}  // namespace tandem::torch
