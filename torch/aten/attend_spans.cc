// Attention by the kernels of torch/kernels/attention.h.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "torch/aten/attend.h"
#include "torch/aten/element_type.h"
#include "torch/aten/guarded.h"
#include "torch/aten/upload.h"
#include "torch/graphs/attention_lists.h"

namespace tandem::torch {
namespace {

using kernels::CacheRow;

// Of the partials that are held at once; a tile with more takes turns.
constexpr int64_t kPartialBytes = int64_t{64} << 20;

// Lists lie at one place for all passes, and so do partials: a graph has their addresses. Nothing
// else of a launch depends on the pass, but where a tile takes turns or the lists are larger than
// that place. Begin tells.
class SpansAttender final : public Attender {
 public:
  SpansAttender(const HeadSizes& sizes, at::Device device, const InputSizes& inputs, bool mma,
                kernels::PassKernels& kernels, void* stream)
      : sizes_(sizes),
        device_(device),
        inputs_(inputs),
        mma_(mma),
        kernels_(kernels),
        stream_(stream) {
    const int rows = AllShapes(inputs).front().rows;
    rows_bytes_ = static_cast<size_t>(rows) * sizeof(CacheRow);
    usual_bytes_ = rows_bytes_ + UsualWords(rows, inputs) * sizeof(uint32_t);
    usual_ = at::empty({static_cast<int64_t>(usual_bytes_)}, Where(at::kByte));
    // At least a tile of short rows, and a row of the longest context.
    const int64_t one = int64_t{sizes.heads} * (sizes.head_size + 2);
    max_partials_ = std::max({kPartialBytes / (one * int64_t{sizeof(float)}), int64_t{inputs.tile},
                              int64_t{inputs.max_pages}});
    partials_ = at::empty({max_partials_ * one}, Where(at::kFloat));
    MakeEmptyLists(rows, inputs, lists_);
    Cut();
    Put();
  }

  bool Begin(const PassRows& pass) override {
    MakeAttentionLists(pass, inputs_, lists_);
    Cut();
    const bool usual = Put();
    return usual && std::all_of(turns_.begin(), turns_.end(),
                                [](const auto& turns) { return turns.size() == 1; });
  }

  at::Tensor RotateAndWrite(const LayerCache& layer, int64_t first_row, const at::Tensor& qkv,
                            const HeadWork& work) override {
    TORCH_CHECK(qkv.is_contiguous() && qkv.scalar_type() == layer.keys.scalar_type());
    TORCH_CHECK(sizes_.head_size <= int{2 * kernels::kNormLanes});
    at::Tensor queries =
        at::empty({qkv.size(0), sizes_.heads, sizes_.head_size}, Where(at::kFloat));
    kernels::RopeWriteArguments a;
    a.rows = rows() + first_row;
    a.pages = words();
    a.pool = layer.keys.data_ptr();
    a.layer = LayerOf(layer);
    a.heads = static_cast<uint32_t>(sizes_.heads);
    a.qkv = qkv.const_data_ptr();
    if (work.bias.defined()) a.bias = work.bias.const_data_ptr<float>();
    if (work.q_norm.defined()) {
      a.q_norm = work.q_norm.const_data_ptr<float>();
      a.k_norm = work.k_norm.const_data_ptr<float>();
      a.epsilon = static_cast<float>(work.epsilon);
      a.norm_together = work.norm_together ? 1 : 0;
    }
    if (work.all.cosines.defined()) {
      a.rotated_pairs = static_cast<uint32_t>(work.all.cosines.size(1));
      a.cosines = work.all.cosines.const_data_ptr<float>();
      a.sines = work.all.sines.const_data_ptr<float>();
    }
    a.queries = queries.data_ptr<float>();
    ThrowIfFailed(kernels_.RopeWrite(ElementTypeOf(qkv.scalar_type()), a,
                                     static_cast<uint32_t>(qkv.size(0)), stream_));
    return queries;
  }

  at::Tensor Attend(const LayerCache& layer, int window, int64_t first_row,
                    const at::Tensor& queries) override {
    at::Tensor out = at::empty(queries.sizes(), Where(layer.keys.scalar_type()));
    const at::Tensor whole = queries.to(at::kFloat).contiguous();
    kernels::AttentionArguments a;
    a.rows = rows();
    a.pages = a.rest = a.partial_rows = words();
    a.pool = layer.keys.const_data_ptr();
    a.layer = LayerOf(layer);
    a.heads = static_cast<uint32_t>(sizes_.heads);
    a.window = static_cast<uint32_t>(window);
    a.scale = static_cast<float>(sizes_.scale);
    a.partial_largest = partials_.data_ptr<float>();
    a.partial_sums = a.partial_largest + max_partials_ * sizes_.heads;
    a.partial_values = a.partial_sums + max_partials_ * sizes_.heads;
    // A launch for each tile also where products are of all rows: partials have room for these.
    for (int64_t first = 0; first < queries.size(0); first += inputs_.tile) {
      const auto tile = static_cast<size_t>((first_row + first) / inputs_.tile);
      for (const RowRange& turn : turns_[tile]) {
        const int64_t place = static_cast<int64_t>(turn.first) - first_row;
        a.first_row = static_cast<uint32_t>(turn.first);
        a.row_count = static_cast<uint32_t>(turn.count);
        a.queries = whole[place].const_data_ptr<float>();
        a.out = out[place].data_ptr();
        const kernels::ElementType type = ElementTypeOf(out.scalar_type());
        ThrowIfFailed(mma_ ? kernels_.AttendByMma(type, a, stream_)
                           : kernels_.Attend(type, a, stream_));
      }
    }
    return out.view({queries.size(0), -1});
  }

 private:
  at::TensorOptions Where(at::ScalarType type) const {
    return at::TensorOptions().dtype(type).device(device_);
  }

  void Cut() {
    const auto tile = static_cast<size_t>(inputs_.tile);
    turns_.clear();
    for (size_t first = 0; first < lists_.rows.size(); first += tile) {
      turns_.push_back(CutTile(lists_.rows, first, tile, static_cast<uint32_t>(max_partials_)));
    }
  }

  // Rows and lists to the device, by one copy. Whether they have their usual place.
  bool Put() {
    const size_t words = lists_.words.size() * sizeof(uint32_t);
    const size_t bytes = rows_bytes_ + words;
    const at::Tensor host = HostTensor({static_cast<int64_t>(bytes)}, at::kByte, device_);
    char* to = static_cast<char*>(host.data_ptr());
    std::memcpy(to, lists_.rows.data(), lists_.rows.size() * sizeof(CacheRow));
    std::memcpy(to + rows_bytes_, lists_.words.data(), words);
    const bool usual = bytes <= usual_bytes_;
    at_ = usual ? usual_ : at::empty({static_cast<int64_t>(bytes)}, Where(at::kByte));
    at_.slice(0, 0, static_cast<int64_t>(bytes)).copy_(host, /*non_blocking=*/true);
    return usual;
  }

  // On the device.
  const CacheRow* rows() const { return static_cast<const CacheRow*>(at_.const_data_ptr()); }
  const uint32_t* words() const {
    return reinterpret_cast<const uint32_t*>(static_cast<const char*>(at_.const_data_ptr()) +
                                             rows_bytes_);
  }

  kernels::CacheLayer LayerOf(const LayerCache& layer) const {
    const auto bytes = static_cast<const char*>(layer.values.const_data_ptr()) -
                       static_cast<const char*>(layer.keys.const_data_ptr());
    kernels::CacheLayer in;
    in.page_words = static_cast<uint64_t>(layer.keys.stride(0));
    in.cell_words = static_cast<uint32_t>(layer.keys.stride(1));
    in.head_words = static_cast<uint32_t>(layer.keys.stride(2));
    in.value_words = static_cast<uint64_t>(bytes) / layer.keys.element_size();
    in.kv_heads = static_cast<uint32_t>(sizes_.kv_heads);
    in.head_size = static_cast<uint32_t>(sizes_.head_size);
    return in;
  }

  const HeadSizes sizes_;
  const at::Device device_;
  const InputSizes inputs_;
  const bool mma_;
  kernels::PassKernels& kernels_;
  void* const stream_;

  // On the device.
  size_t rows_bytes_ = 0;     // of the most rows; lists lie behind them
  size_t usual_bytes_ = 0;    // of the usual place
  at::Tensor usual_;          // the usual place of rows and lists
  at::Tensor at_;             // where they are
  int64_t max_partials_ = 0;  // that there is room for
  at::Tensor partials_;

  // Of the pass.
  AttentionLists lists_;
  std::vector<std::vector<RowRange>> turns_;  // of each tile
};

}  // namespace

std::unique_ptr<Attender> MakeSpansAttender(const HeadSizes& sizes, at::Device device,
                                            const InputSizes& inputs, bool mma,
                                            kernels::PassKernels& kernels, void* stream) {
  return std::make_unique<SpansAttender>(sizes, device, inputs, mma, kernels, stream);
}

}  // namespace tandem::torch
