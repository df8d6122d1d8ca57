#include "torch/aten/weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "torch/aten/guarded.h"
#include "torch/aten/int8.h"
#include "torch/aten/upload.h"

namespace tandem::torch {
namespace {

using model::DecoderTensors;
using model::LayerTensors;
using model::LinearView;
using model::TensorView;

// Of a matrix that is brought into whole numbers at a time.
constexpr int64_t kRowsAtOnce = 2048;
// Of a tensor that is on its way to a device; few enough to stay in a processor's cache.
constexpr int64_t kBytesAtOnce = int64_t{1} << 20;

at::ScalarType StoredType(const TensorView& view) {
  if (view.dtype == "BF16") return at::kBFloat16;
  if (view.dtype == "I8") return at::kChar;
  return view.dtype == "F16" ? at::kHalf : at::kFloat;
}

// Brings tensors of a file to a device, and counts.
class Reader {
 public:
  Reader(at::Device device, at::ScalarType type, std::optional<at::ScalarType> others,
         bool plus_one)
      : device_(device), type_(type), others_(others), plus_one_(plus_one) {}

  at::Tensor Floats(const TensorView* view) { return Read(view, at::kFloat); }

  // An embedding, which no product reads.
  at::Tensor Table(const TensorView* view) {
    return Read(view, type_ == at::kChar ? StoredType(*view) : type_);
  }

  NormWeights Norm(const TensorView* weight, const TensorView* bias = nullptr) {
    NormWeights norm{Floats(weight), Floats(bias)};
    if (plus_one_ && norm.weight.defined()) norm.weight.add_(1.0);
    return norm;
  }

  // Rows of several matrices as one; those that are not there are left out. All have a bias, or
  // none.
  Linear Joined(std::initializer_list<LinearView> views) {
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> biases;
    std::vector<at::Tensor> scales;
    for (const LinearView& view : views) {
      if (view.weight == nullptr) continue;
      if (view.weight->dtype == "I8") {
        weights.push_back(PaddedColumns(Read(view.weight, at::kChar)));
        scales.push_back(Floats(view.scale).flatten());
      } else if (type_ == at::kChar && !others_.has_value()) {
        Quantize(view.weight, &weights, &scales);
      } else {
        weights.push_back(Read(view.weight, others_.value_or(type_)));
      }
      if (view.bias != nullptr) biases.push_back(Floats(view.bias));
    }
    const at::Tensor weight = Together(weights);
    return {scales.empty() ? weight : PaddedRows(weight), Together(biases), Together(scales)};
  }

  int64_t read() const { return read_; }
  int64_t held() const { return held_; }

 private:
  static at::Tensor Together(const std::vector<at::Tensor>& parts) {
    if (parts.empty()) return at::Tensor();
    return parts.size() == 1 ? parts[0] : at::cat(parts);
  }

  // A copy of rows from `first` on. It goes to the device in the narrower of both types. Where that
  // converts it, it holds at most kBytesAtOnce in both.
  at::Tensor Rows(const TensorView& view, int64_t first, int64_t count, at::ScalarType type) {
    std::vector<int64_t> shape = view.shape;
    const auto row_bytes = static_cast<int64_t>(view.bytes) / shape[0];
    shape[0] = count;
    const at::ScalarType stored = StoredType(view);
    const auto size = static_cast<int64_t>(c10::elementSize(stored));
    const bool converts_there =
        stored != type && size <= static_cast<int64_t>(c10::elementSize(type));
    at::Tensor rows = at::empty(shape, at::TensorOptions().dtype(type).device(device_));
    const at::Tensor flat = rows.view(-1);
    const char* from = static_cast<const char*>(view.data) + first * row_bytes;
    for (int64_t at = 0; at < flat.numel(); at += kBytesAtOnce / size) {
      const int64_t some = std::min(kBytesAtOnce / size, flat.numel() - at);
      const at::Tensor raw = staging_.slice(0, 0, some * size).view(stored);
      std::memcpy(raw.data_ptr(), from + at * size, static_cast<size_t>(some * size));
      flat.slice(0, at, at + some).copy_(converts_there ? raw.to(device_) : raw);
    }
    read_ += count * row_bytes;
    return rows;
  }

  // Undefined for null.
  at::Tensor Read(const TensorView* view, at::ScalarType type) {
    if (view == nullptr) return at::Tensor();
    at::Tensor tensor = Rows(*view, 0, view->shape[0], type);
    held_ += static_cast<int64_t>(tensor.nbytes());
    return tensor;
  }

  void Quantize(const TensorView* view, std::vector<at::Tensor>* weights,
                std::vector<at::Tensor>* scales) {
    const int64_t rows = view->shape[0];
    for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, rows - first);
      const Int8Rows some = Quantized(Rows(*view, first, count, at::kFloat));
      held_ += static_cast<int64_t>(some.integers.nbytes() + some.scales.nbytes());
      weights->push_back(some.integers);
      scales->push_back(some.scales);
    }
  }

  const at::Device device_;
  const at::ScalarType type_;
  const std::optional<at::ScalarType> others_;
  const bool plus_one_;
  const at::Tensor staging_ = HostTensor({kBytesAtOnce}, at::kByte, device_);
  int64_t read_ = 0;  // bytes of the file
  int64_t held_ = 0;  // bytes on the device
};

int64_t FileBytes(const DecoderTensors& tensors) {
  int64_t bytes = 0;
  auto add = [&bytes](std::initializer_list<const TensorView*> views) {
    for (const TensorView* view : views) {
      if (view != nullptr) bytes += static_cast<int64_t>(view->bytes);
    }
  };
  add({tensors.embedding, tensors.positions, tensors.final_norm, tensors.final_norm_bias});
  if (tensors.output != tensors.embedding) add({tensors.output});
  for (const LayerTensors& layer : tensors.layers) {
    add({layer.attention_norm, layer.attention_norm_bias, layer.q_norm, layer.k_norm,
         layer.post_attention_norm, layer.mlp_norm, layer.mlp_norm_bias, layer.post_mlp_norm});
    for (const LinearView* view :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      add({view->weight, view->bias});
    }
  }
  return bytes;
}

}  // namespace

Weights::Weights(const model::DecoderSpec& spec, const DecoderTensors& tensors, at::Device device,
                 at::ScalarType type, std::optional<at::ScalarType> others,
                 const std::function<void(int64_t, int64_t)>& progress) {
  Reader reader(device, type, others, spec.norm.plus_one);
  const int64_t all = FileBytes(tensors);
  for (const LayerTensors& views : tensors.layers) {
    LayerWeights layer;
    layer.attention_norm = reader.Norm(views.attention_norm, views.attention_norm_bias);
    layer.qkv = reader.Joined({views.q, views.k, views.v});
    layer.q_norm = reader.Norm(views.q_norm);
    layer.k_norm = reader.Norm(views.k_norm);
    layer.o = reader.Joined({views.o});
    layer.post_attention_norm = reader.Norm(views.post_attention_norm);
    layer.mlp_norm = reader.Norm(views.mlp_norm, views.mlp_norm_bias);
    layer.gate_up = reader.Joined({views.gate, views.up});
    layer.down = reader.Joined({views.down});
    layer.post_mlp_norm = reader.Norm(views.post_mlp_norm);
    layers.push_back(std::move(layer));
    if (progress) progress(reader.read(), all);
  }
  final_norm = reader.Norm(tensors.final_norm, tensors.final_norm_bias);
  positions = reader.Floats(tensors.positions);
  output = reader.Joined({LinearView{tensors.output, nullptr, tensors.output_scale}});
  const bool tied = tensors.output == tensors.embedding;
  embedding = tied ? output : Linear{reader.Table(tensors.embedding), {}, {}};
  bytes = reader.held();
  if (progress) progress(all, all);
}

CacheEmptier::~CacheEmptier() {
  if (device.is_cpu()) return;
  // A device that failed cannot do this either, and was reported.
  Guarded("give memory back", [&] {
    c10::getDeviceAllocator(device.type())->emptyCache();
  }).IgnoreError();
}

LoadedWeights::LoadedWeights(const StepOptions& options, const model::DecoderSpec& spec,
                             const DecoderTensors& tensors, at::Device device)
    : emptier{device},
      weights(
          spec, tensors, device,
          options.type == ComputeType::kInt8 ? at::kChar : ScalarTypeOf(options.type),
          options.others.has_value() ? std::optional(ScalarTypeOf(*options.others)) : std::nullopt,
          options.progress) {}

at::ScalarType ScalarTypeOf(ComputeType type) {
  if (type == ComputeType::kBfloat16) return at::kBFloat16;
  if (type == ComputeType::kFloat16) return at::kHalf;
  return at::kFloat;
}

at::Tensor Weights::Embedded(const at::Tensor& tokens) const {
  at::Tensor rows = embedding.weight.index_select(0, tokens).to(at::kFloat);
  if (!embedding.scales.defined()) return rows;
  return rows.slice(1, 0, final_norm.weight.size(0))
      .mul(embedding.scales.index_select(0, tokens).unsqueeze(1));
}

}  // namespace tandem::torch
