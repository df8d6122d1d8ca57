#include "torch/aten/weights.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <initializer_list>
#include <utility>

namespace tandem::torch {
namespace {

using model::DecoderTensors;
using model::LayerTensors;
using model::LinearView;
using model::TensorView;

// Brings tensors of a file to a device, and counts.
class Reader {
 public:
  Reader(at::Device device, at::ScalarType type) : device_(device), type_(type) {}

  at::Tensor Read(const TensorView& view, at::ScalarType type) {
    at::ScalarType stored = at::kFloat;
    if (view.dtype == "BF16") stored = at::kBFloat16;
    if (view.dtype == "F16") stored = at::kHalf;
    at::Tensor raw = at::empty(view.shape, at::TensorOptions().dtype(stored));
    std::memcpy(raw.data_ptr(), view.data, view.bytes);
    read_ += static_cast<int64_t>(view.bytes);
    return Count(raw.to(device_, type));
  }

  at::Tensor Norm(const TensorView* view) { return Read(*view, at::kFloat); }
  at::Tensor Matrix(const TensorView* view) { return Read(*view, type_); }

  // Rows of several matrices as one. All have a bias, or none.
  Linear Joined(std::initializer_list<LinearView> views) {
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> biases;
    for (const LinearView& view : views) {
      weights.push_back(Matrix(view.weight));
      if (view.bias != nullptr) biases.push_back(Matrix(view.bias));
    }
    if (weights.size() == 1) return {weights[0], biases.empty() ? at::Tensor() : biases[0]};
    return {at::cat(weights), biases.empty() ? at::Tensor() : at::cat(biases)};
  }

  int64_t read() const { return read_; }
  int64_t held() const { return held_; }

 private:
  at::Tensor Count(at::Tensor tensor) {
    held_ += static_cast<int64_t>(tensor.nbytes());
    return tensor;
  }

  const at::Device device_;
  const at::ScalarType type_;
  int64_t read_ = 0;  // bytes of the file
  int64_t held_ = 0;  // bytes on the device
};

int64_t FileBytes(const DecoderTensors& tensors) {
  int64_t bytes = static_cast<int64_t>(tensors.embedding->bytes + tensors.final_norm->bytes);
  if (tensors.output != tensors.embedding) bytes += static_cast<int64_t>(tensors.output->bytes);
  auto add = [&bytes](const TensorView* view) {
    if (view != nullptr) bytes += static_cast<int64_t>(view->bytes);
  };
  for (const LayerTensors& layer : tensors.layers) {
    add(layer.attention_norm);
    add(layer.mlp_norm);
    for (const LinearView* view :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      add(view->weight);
      add(view->bias);
    }
  }
  return bytes;
}

}  // namespace

Weights::Weights(const DecoderTensors& tensors, at::Device device, at::ScalarType type,
                 const std::function<void(int64_t, int64_t)>& progress) {
  Reader reader(device, type);
  const int64_t all = FileBytes(tensors);
  for (const LayerTensors& views : tensors.layers) {
    LayerWeights layer;
    layer.attention_norm = reader.Norm(views.attention_norm);
    layer.qkv = reader.Joined({views.q, views.k, views.v});
    layer.o = reader.Joined({views.o});
    layer.mlp_norm = reader.Norm(views.mlp_norm);
    layer.gate_up = reader.Joined({views.gate, views.up});
    layer.down = reader.Joined({views.down});
    layers.push_back(std::move(layer));
    if (progress) progress(reader.read(), all);
  }
  final_norm = reader.Norm(tensors.final_norm);
  embedding = reader.Matrix(tensors.embedding);
  const bool tied = tensors.output == tensors.embedding;
  output.weight = tied ? embedding : reader.Matrix(tensors.output);
  bytes = reader.held();
  if (progress) progress(all, all);
}

}  // namespace tandem::torch
