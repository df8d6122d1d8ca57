// The weights of a decoder as tensors on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "model/decoder_tensors.h"
#include "model/spec/decoder_spec.h"

namespace tandem::torch {

// y = x · weightᵀ + bias; without a bias it is undefined.
struct Linear {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out]
};

struct LayerWeights {
  at::Tensor attention_norm;  // [hidden], fp32
  Linear qkv;                 // q, k, v one after the other
  Linear o;
  at::Tensor mlp_norm;  // [hidden], fp32
  Linear gate_up;       // gates, then ups
  Linear down;
};

// Immutable once made.
struct Weights {
  // Copies what `tensors` point at. Matrices, biases and embeddings are held as `type`. `progress`
  // as in StepOptions.
  Weights(const model::DecoderTensors& tensors, at::Device device, at::ScalarType type,
          const std::function<void(int64_t, int64_t)>& progress);

  at::Tensor embedding;  // [vocabulary, hidden]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [hidden], fp32
  Linear output;          // a tied model's is its embedding
  int64_t bytes = 0;
};

}  // namespace tandem::torch
