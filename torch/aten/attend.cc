#include "torch/aten/attend.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "torch/aten/upload.h"

namespace tandem::torch {
namespace {

int64_t Pages(int cells) { return (cells + kPageTokens - 1) / kPageTokens; }

// Each row by itself. What its sequence holds is copied together once for all rows of a part; a
// row then sees the first cells of the copy, or, in a tree, the cells of its path, copied in its
// order. Either way the operands have the same shapes and strides for the same number of cells.
class GatherAttender final : public Attender {
 public:
  GatherAttender(const HeadSizes& sizes, at::Device device) : sizes_(sizes), device_(device) {}

  bool Begin(const PassRows& pass) override {
    pass_ = pass;
    pages_.clear();
    cells_.assign(pass.rows.size(), at::Tensor());
    layer_ = nullptr;
    const std::vector<int> seen = CellsInSight(pass);
    for (size_t i = 0; i < pass.rows.size(); ++i) {
      const Row& row = pass.rows[i];
      if (row.visible == row.straight) continue;
      std::vector<int64_t> cells;
      cells.reserve(static_cast<size_t>(row.visible));
      for (int cell = 0; cell < row.straight; ++cell) cells.push_back(cell);
      for (int j = 0; j < row.visible - row.straight; ++j) cells.push_back(row.rest[j]);
      cells_[i] = Uploaded(cells, device_);
    }
    for (size_t part = 0; part < seen.size(); ++part) {
      const uint32_t* list = pass.pages[part];
      pages_.push_back(Uploaded(std::vector<int64_t>(list, list + Pages(seen[part])), device_));
    }
    copies_.resize(pages_.size());
    return false;
  }

  at::Tensor Attend(const LayerCache& layer, int window, int64_t first_row,
                    const at::Tensor& queries) override {
    if (layer_ != layer.keys.const_data_ptr()) CopyTogether(layer);
    const int64_t group = sizes_.heads / sizes_.kv_heads;
    at::Tensor out = at::zeros_like(queries, at::kFloat);
    const at::Tensor scaled = queries.to(at::kFloat).mul(sizes_.scale);
    const auto first = static_cast<size_t>(first_row);
    const size_t end = std::min(first + static_cast<size_t>(queries.size(0)), pass_.rows.size());
    for (size_t i = first; i < end; ++i) {
      const Row& row = pass_.rows[i];
      const LayerCache& copy = copies_[static_cast<size_t>(row.part)];
      const at::Tensor keys = Seen(copy.keys, i, window);
      const at::Tensor values = Seen(copy.values, i, window);
      const int64_t place = static_cast<int64_t>(i - first);
      const at::Tensor query = scaled[place].view({sizes_.kv_heads, group, sizes_.head_size});
      const at::Tensor weights = at::softmax(at::bmm(query, keys.permute({1, 2, 0})), -1);
      out[place].view_as(query).copy_(at::bmm(weights, values.permute({1, 0, 2})));
    }
    return out.view({queries.size(0), -1}).to(queries.scalar_type());
  }

 private:
  // [cells, kv_heads, head_size] in fp32, of each part.
  void CopyTogether(const LayerCache& layer) {
    for (size_t part = 0; part < pages_.size(); ++part) {
      auto copy = [&](const at::Tensor& cache) {
        return cache.index_select(0, pages_[part])
            .to(at::kFloat)
            .view({-1, sizes_.kv_heads, sizes_.head_size});
      };
      copies_[part] = {copy(layer.keys), copy(layer.values)};
    }
    layer_ = layer.keys.const_data_ptr();
  }

  // A window is cut out of the whole, so that it begins at the same place of a copy for a tree's
  // row as for its chain's.
  at::Tensor Seen(const at::Tensor& copy, size_t row, int window) const {
    const int visible = pass_.rows[row].visible;
    const int first = window == 0 ? 0 : std::max(0, visible - window);
    if (!cells_[row].defined()) return copy.slice(0, first, visible);
    return copy.index_select(0, cells_[row]).slice(0, first);
  }

  const HeadSizes sizes_;
  const at::Device device_;
  PassRows pass_;
  std::vector<at::Tensor> pages_;  // of each part
  std::vector<at::Tensor> cells_;  // of each row that is not straight; else undefined
  const void* layer_ = nullptr;    // whose copies these are
  std::vector<LayerCache> copies_;
};

}  // namespace

std::unique_ptr<Attender> MakeGatherAttender(const HeadSizes& sizes, at::Device device) {
  return std::make_unique<GatherAttender>(sizes, device);
}

}  // namespace tandem::torch
