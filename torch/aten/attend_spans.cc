// Attention by the kernels of torch/kernels/attention.h.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "torch/aten/attend.h"
#include "torch/aten/upload.h"

namespace tandem::torch {
namespace {

using kernels::CacheRow;

// Of the partials that are held at once; rows beyond it take turns.
constexpr int64_t kPartialBytes = int64_t{64} << 20;

class SpansAttender final : public Attender {
 public:
  SpansAttender(const HeadSizes& sizes, at::Device device, kernels::PassKernels& kernels,
                void* stream)
      : sizes_(sizes), device_(device), kernels_(kernels), stream_(stream) {}

  void Begin(const PassRows& pass, int tile) override {
    tile_ = tile;
    visible_.clear();
    std::vector<int> cells(pass.pages.size(), 0);  // of each part: how many its rows may look at
    std::vector<uint32_t> rest;
    std::vector<CacheRow> rows;
    for (const Row& row : pass.rows) {
      CacheRow one;
      one.position = static_cast<uint32_t>(row.visible) - 1;
      one.cell = static_cast<uint32_t>(row.cell);
      one.straight = static_cast<uint32_t>(row.straight);
      one.first_rest = static_cast<uint32_t>(rest.size());
      int& last = cells[static_cast<size_t>(row.part)];
      last = std::max(last, row.straight);
      for (int i = 0; i < row.visible - row.straight; ++i) {
        rest.push_back(static_cast<uint32_t>(row.rest[i]));
        last = std::max(last, row.rest[i] + 1);
      }
      rows.push_back(one);
      visible_.push_back(row.visible);
    }
    std::vector<uint32_t> first_pages, pages;
    for (size_t part = 0; part < cells.size(); ++part) {
      first_pages.push_back(static_cast<uint32_t>(pages.size()));
      const uint32_t* list = pass.pages[part];
      pages.insert(pages.end(), list, list + (cells[part] + kPageTokens - 1) / kPageTokens);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].first_page = first_pages[static_cast<size_t>(pass.rows[i].part)];
    }
    Put(rows, pages, rest);
  }

  void Take(const at::Tensor&, const at::Tensor&) override {}

  at::Tensor RotateAndWrite(const LayerCache& layer, int tile_index, const at::Tensor& qkv,
                            const Rotation& all) override {
    at::Tensor queries = at::zeros({tile_, sizes_.heads, sizes_.head_size}, qkv.options());
    if (layer.keys.scalar_type() == at::kBFloat16) {
      RopeWrite<uint16_t>(layer, tile_index, qkv, all, queries);
    } else {
      RopeWrite<float>(layer, tile_index, qkv, all, queries);
    }
    return queries;
  }

  at::Tensor Attend(const LayerCache& layer, int window, int tile_index,
                    const at::Tensor& queries) override {
    at::Tensor out = at::zeros_like(queries, at::kFloat);
    const at::Tensor scaled = queries.to(at::kFloat).mul(sizes_.scale).contiguous();
    if (layer.keys.scalar_type() == at::kBFloat16) {
      Launch<uint16_t>(layer, window, tile_index, scaled, out);
    } else {
      Launch<float>(layer, window, tile_index, scaled, out);
    }
    return out.view({queries.size(0), -1}).to(queries.scalar_type());
  }

 private:
  // All lists in one block, so that one copy brings them.
  void Put(const std::vector<CacheRow>& rows, const std::vector<uint32_t>& pages,
           const std::vector<uint32_t>& rest) {
    pages_at_ = rows.size() * sizeof(CacheRow);
    rest_at_ = pages_at_ + pages.size() * sizeof(uint32_t);
    const size_t bytes = rest_at_ + rest.size() * sizeof(uint32_t);
    const at::Tensor host = HostTensor({static_cast<int64_t>(bytes)}, at::kByte, device_);
    char* to = static_cast<char*>(host.data_ptr());
    std::copy_n(reinterpret_cast<const char*>(rows.data()), pages_at_, to);
    std::copy_n(reinterpret_cast<const char*>(pages.data()), rest_at_ - pages_at_, to + pages_at_);
    std::copy_n(reinterpret_cast<const char*>(rest.data()), bytes - rest_at_, to + rest_at_);
    lists_ = ToDevice(host, device_);
  }

  struct RowsOfTile {
    size_t first = 0;
    size_t count = 0;  // those that fill up are not among them
  };
  RowsOfTile RowsOf(int tile_index) const {
    const size_t size = static_cast<size_t>(tile_);
    const size_t first = std::min(static_cast<size_t>(tile_index) * size, visible_.size());
    return {first, std::min(size, visible_.size() - first)};
  }

  // In the lists on the device.
  const CacheRow* RowsAt(size_t row) const {
    return static_cast<const CacheRow*>(lists_.const_data_ptr()) + row;
  }
  const uint32_t* WordsAt(size_t bytes) const {
    return reinterpret_cast<const uint32_t*>(static_cast<const char*>(lists_.const_data_ptr()) +
                                             bytes);
  }

  template <typename Word>
  void RopeWrite(const LayerCache& layer, int tile_index, const at::Tensor& qkv,
                 const Rotation& all, const at::Tensor& queries) {
    const RowsOfTile rows = RowsOf(tile_index);
    const at::Tensor whole = qkv.contiguous();
    kernels::RopeWriteArguments<Word> a;
    a.rows = RowsAt(rows.first);
    a.pages = WordsAt(pages_at_);
    a.pool = static_cast<Word*>(layer.keys.data_ptr());
    a.layer = LayerOf(layer, sizeof(Word));
    a.heads = static_cast<uint32_t>(sizes_.heads);
    a.qkv = whole.const_data_ptr<float>();
    a.cosines = all.cosines.const_data_ptr<float>();
    a.sines = all.sines.const_data_ptr<float>();
    a.queries = queries.data_ptr<float>();
    const absl::Status status = kernels_.RopeWrite(a, static_cast<uint32_t>(rows.count), stream_);
    TORCH_CHECK(status.ok(), status.message());
  }

  template <typename Word>
  void Launch(const LayerCache& layer, int window, int tile_index, const at::Tensor& queries,
              const at::Tensor& out) {
    const RowsOfTile rows = RowsOf(tile_index);
    if (rows.count == 0) return;
    const size_t first = rows.first, end = rows.first + rows.count;
    const int longest = *std::max_element(visible_.begin() + static_cast<ptrdiff_t>(first),
                                          visible_.begin() + static_cast<ptrdiff_t>(end));
    kernels::AttentionArguments<Word> a;
    a.pages = WordsAt(pages_at_);
    a.rest = WordsAt(rest_at_);
    a.pool = static_cast<const Word*>(layer.keys.const_data_ptr());
    a.layer = LayerOf(layer, sizeof(Word));
    a.heads = static_cast<uint32_t>(sizes_.heads);
    a.window = static_cast<uint32_t>(window);
    a.max_partials = (static_cast<uint32_t>(longest) + kernels::kPartial - 1) / kernels::kPartial;
    const int64_t row_partials = int64_t{sizes_.heads} * a.max_partials;
    const int64_t row_bytes = row_partials * (sizes_.head_size + 2) * int64_t{sizeof(float)};
    const auto turn = static_cast<size_t>(
        std::clamp<int64_t>(kPartialBytes / row_bytes, 1, static_cast<int64_t>(end - first)));
    const at::Tensor partials =
        at::empty({static_cast<int64_t>(turn) * row_partials * (sizes_.head_size + 2)},
                  at::TensorOptions().dtype(at::kFloat).device(device_));
    a.partial_largest = partials.data_ptr<float>();
    a.partial_sums = a.partial_largest + static_cast<int64_t>(turn) * row_partials;
    a.partial_values = a.partial_sums + static_cast<int64_t>(turn) * row_partials;
    for (size_t row = first; row < end; row += turn) {
      const auto at = static_cast<int64_t>(row - first);
      a.rows = RowsAt(row);
      a.row_count = static_cast<uint32_t>(std::min(turn, end - row));
      a.queries = queries[at].const_data_ptr<float>();
      a.out = out[at].data_ptr<float>();
      const absl::Status status = kernels_.Attend(a, stream_);
      TORCH_CHECK(status.ok(), status.message());
    }
  }

  kernels::CacheLayer LayerOf(const LayerCache& layer, size_t word) const {
    const auto bytes = static_cast<const char*>(layer.values.const_data_ptr()) -
                       static_cast<const char*>(layer.keys.const_data_ptr());
    kernels::CacheLayer in;
    in.page_words = static_cast<uint64_t>(layer.keys.stride(0));
    in.cell_words = static_cast<uint32_t>(layer.keys.stride(1));
    in.head_words = static_cast<uint32_t>(layer.keys.stride(2));
    in.value_words = static_cast<uint64_t>(bytes) / word;
    in.kv_heads = static_cast<uint32_t>(sizes_.kv_heads);
    in.head_size = static_cast<uint32_t>(sizes_.head_size);
    return in;
  }

  const HeadSizes sizes_;
  const at::Device device_;
  kernels::PassKernels& kernels_;
  void* const stream_;

  // Of the pass.
  int tile_ = 0;
  std::vector<int> visible_;  // of each row
  at::Tensor lists_;          // on the device: rows, pages, and cells of trees
  size_t pages_at_ = 0;       // in it, in bytes
  size_t rest_at_ = 0;
};

}  // namespace

std::unique_ptr<Attender> MakeSpansAttender(const HeadSizes& sizes, at::Device device,
                                            kernels::PassKernels& kernels, void* stream) {
  return std::make_unique<SpansAttender>(sizes, device, kernels, stream);
}

}  // namespace tandem::torch
