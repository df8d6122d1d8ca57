// The weights of a decoder as tensors on a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/decoder_tensors.h"
#include "model/spec/decoder_spec.h"
#include "torch/aten/elementwise.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// y = x · weightᵀ + bias; without a bias it is undefined.
struct Linear {
  at::Tensor weight;  // [out, in]; in whole numbers (int8.h) both are rounded up to 8
  at::Tensor bias;    // [out], fp32
  at::Tensor scales;  // [out], fp32; defined: the weight is in whole numbers
};

// What the specification does not have is undefined.
struct LayerWeights {
  NormWeights attention_norm;  // [hidden]
  Linear qkv;                  // q, k, v one after the other
  NormWeights q_norm;          // [head_size] or [q_size]
  NormWeights k_norm;          // [head_size] or [kv_size]
  Linear o;
  NormWeights post_attention_norm;  // [hidden]
  NormWeights mlp_norm;             // [hidden]
  Linear gate_up;                   // gates, then ups; without gates, the ups
  Linear down;
  NormWeights post_mlp_norm;  // [hidden]
};

// Immutable once made.
struct Weights {
  // Copies what `tensors` point at. Matrices and embeddings are held as `type`, all else as fp32.
  // int8: matrices are held in whole numbers, those that are int8 in the file as they are; with
  // `others` the rest of the matrices is held as that. Embeddings that are not the output's are
  // then as the file has them. `progress` as in StepOptions.
  Weights(const model::DecoderSpec& spec, const model::DecoderTensors& tensors, at::Device device,
          at::ScalarType type, std::optional<at::ScalarType> others,
          const std::function<void(int64_t, int64_t)>& progress);

  // Of some tokens: [tokens, hidden], fp32.
  at::Tensor Embedded(const at::Tensor& tokens) const;

  Linear embedding;      // its weight [vocabulary, hidden]; there is no bias
  at::Tensor positions;  // [context + position_offset, hidden], fp32; undefined: none are learned
  std::vector<LayerWeights> layers;
  NormWeights final_norm;  // [hidden]
  Linear output;           // a tied model's is its embedding
  int64_t bytes = 0;
};

// Gives back to the card what LibTorch keeps of memory that was freed: the next model's graphs, and
// what does not belong to LibTorch, cannot have it else. The first member of what holds tensors:
// all memory was freed before.
struct CacheEmptier {
  at::Device device;
  ~CacheEmptier();
};

struct LoadedWeights final : public StepWeights {
  // Throws what LibTorch throws.
  LoadedWeights(const StepOptions& options, const model::DecoderSpec& spec,
                const model::DecoderTensors& tensors, at::Device device);

  const CacheEmptier emptier;
  const Weights weights;
};

// Of what attends: where products are of whole numbers, all else is fp32.
at::ScalarType ScalarTypeOf(ComputeType type);

}  // namespace tandem::torch
