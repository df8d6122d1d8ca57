#include "torch/graphs/attention_lists.h"

#include "torch/kernels/attention.h"

namespace tandem::torch {
namespace {

using kernels::CacheRow;

// Cells of a tree that a row sees, as the deepest trees of services have them.
constexpr size_t kUsualDepth = 64;

uint32_t Number(size_t value) { return static_cast<uint32_t>(value); }

}  // namespace

void MakeAttentionLists(const PassRows& pass, const InputSizes& sizes, AttentionLists& to) {
  to.rows.clear();
  to.words.clear();
  // Each partial's row.
  for (const Row& row : pass.rows) {
    CacheRow one;
    one.position = static_cast<uint32_t>(row.visible) - 1;
    one.cell = static_cast<uint32_t>(row.cell);
    one.straight = static_cast<uint32_t>(row.straight);
    one.first_partial = Number(to.words.size());
    one.partials = one.position / kernels::kPartial + 1;
    to.words.insert(to.words.end(), one.partials, Number(to.rows.size()));
    to.rows.push_back(one);
  }
  CacheRow filling;
  filling.straight = 1;
  filling.first_partial = Number(to.words.size());
  filling.first_page = Number(to.words.size());
  to.words.push_back(sizes.scratch_page);
  to.rows.resize(static_cast<size_t>(ShapeOf(pass, sizes).rows), filling);

  const std::vector<int> cells = CellsInSight(pass);
  std::vector<uint32_t> first_pages;
  for (size_t part = 0; part < cells.size(); ++part) {
    first_pages.push_back(Number(to.words.size()));
    const uint32_t* list = pass.pages[part];
    to.words.insert(to.words.end(), list, list + (cells[part] + kPageTokens - 1) / kPageTokens);
  }
  for (size_t i = 0; i < pass.rows.size(); ++i) {
    const Row& row = pass.rows[i];
    to.rows[i].first_page = first_pages[static_cast<size_t>(row.part)];
    to.rows[i].first_rest = Number(to.words.size());
    for (int at = 0; at < row.visible - row.straight; ++at) {
      to.words.push_back(static_cast<uint32_t>(row.rest[at]));
    }
  }
}

void MakeEmptyLists(int rows, const InputSizes& sizes, AttentionLists& to) {
  MakeAttentionLists({}, sizes, to);
  to.rows.resize(static_cast<size_t>(rows), to.rows.front());
}

size_t UsualWords(int rows, const InputSizes& sizes) {
  const size_t pages = static_cast<size_t>(sizes.max_pages);
  return static_cast<size_t>(rows) * (2 * pages + kUsualDepth) + 1;
}

std::vector<RowRange> CutTile(const std::vector<CacheRow>& rows, size_t first, size_t count,
                              uint32_t max_partials) {
  std::vector<RowRange> ranges;
  uint32_t partials = 0;
  for (size_t row = first; row < first + count; ++row) {
    if (ranges.empty() ||
        (ranges.back().count > 0 && partials + rows[row].partials > max_partials)) {
      ranges.push_back({row, 0});
      partials = 0;
    }
    partials += rows[row].partials;
    ++ranges.back().count;
  }
  return ranges;
}

}  // namespace tandem::torch
