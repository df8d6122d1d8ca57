// What a step does row by row and number by number, in fp32: norms, activations, rotation.
//
// A row's bits depend on the row and on the tensor's shape. Operands are whole tiles, on one thread
// (decoder_step.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/spec/decoder_spec.h"

namespace tandem::torch {

// Undefined weight: there is no such norm.
struct NormWeights {
  at::Tensor weight;  // fp32, with the 1 of NormSpec::plus_one
  at::Tensor bias;    // fp32; of layer norms
};

// weight · x / sqrt(mean(x²) + epsilon), over the last dimension.
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// As `spec` says, of [rows, hidden]. Without a weight x itself.
at::Tensor Normed(const model::NormSpec& spec, const at::Tensor& x, const NormWeights& norm);

at::Tensor Activated(model::Activation activation, const at::Tensor& x);

// Of some positions: [rows, 1, rotary_size / 2].
struct Rotation {
  at::Tensor cosines;
  at::Tensor sines;
};

// Of all positions of a context.
class RopeTable {
 public:
  // `frequencies`: radians a position, [rotary_size / 2]. Both tables are multiplied by
  // `attention_factor` (RopeSpec).
  RopeTable(const std::vector<float>& frequencies, double attention_factor, int context,
            at::Device device);

  Rotation At(const at::Tensor& positions) const;
  // Of all of them: [context, rotary_size / 2].
  const Rotation& all() const { return all_; }

 private:
  Rotation all_;  // [context, rotary_size / 2]
};

// x: [rows, heads, head_size]. Of what rotates, element i forms a pair with the one half of it
// further on; the elements behind it stay as they are.
at::Tensor Rotated(const at::Tensor& x, const Rotation& rotation);

}  // namespace tandem::torch
