#include "torch/aten/elementwise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include <cmath>

namespace tandem::torch {

at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor mean = x.square().mean(-1, /*keepdim=*/true);
  return x.mul(mean.add(epsilon).rsqrt()).mul_(weight);
}

at::Tensor Normed(const model::NormSpec& spec, const at::Tensor& x, const NormWeights& norm) {
  if (!norm.weight.defined()) return x;
  if (spec.kind == model::NormSpec::Kind::kRms) return RmsNorm(x, norm.weight, spec.epsilon);
  const at::Tensor centred = x.sub(x.mean(-1, /*keepdim=*/true));
  const at::Tensor variance = centred.square().mean(-1, /*keepdim=*/true);
  return centred.mul(variance.add(spec.epsilon).rsqrt()).mul_(norm.weight).add_(norm.bias);
}

at::Tensor Activated(model::Activation activation, const at::Tensor& x) {
  switch (activation) {
    case model::Activation::kGelu:
      return at::gelu(x);
    case model::Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case model::Activation::kRelu:
      return at::relu(x);
    case model::Activation::kSilu:
      break;
  }
  return at::silu(x);
}

RopeTable::RopeTable(const std::vector<float>& frequencies, double attention_factor, int context,
                     at::Device device) {
  const int64_t half = static_cast<int64_t>(frequencies.size());
  at::Tensor cosines = at::empty({context, half});
  at::Tensor sines = at::empty({context, half});
  const float factor = static_cast<float>(attention_factor);
  for (int64_t position = 0; position < context; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      // As model/rope_table.cc rounds them.
      const double angle = static_cast<float>(position) * frequencies[static_cast<size_t>(i)];
      const int64_t at = position * half + i;
      cosines.data_ptr<float>()[at] = static_cast<float>(std::cos(angle)) * factor;
      sines.data_ptr<float>()[at] = static_cast<float>(std::sin(angle)) * factor;
    }
  }
  all_ = {cosines.to(device), sines.to(device)};
}

Rotation RopeTable::At(const at::Tensor& positions) const {
  return {all_.cosines.index_select(0, positions).unsqueeze(1),
          all_.sines.index_select(0, positions).unsqueeze(1)};
}

at::Tensor Rotated(const at::Tensor& x, const Rotation& rotation) {
  const int64_t half = rotation.cosines.size(-1);
  const at::Tensor first = x.slice(-1, 0, half);
  const at::Tensor second = x.slice(-1, half, 2 * half);
  std::vector<at::Tensor> parts = {first.mul(rotation.cosines).sub_(second.mul(rotation.sines)),
                                   second.mul(rotation.cosines).add_(first.mul(rotation.sines))};
  if (2 * half < x.size(-1)) parts.push_back(x.slice(-1, 2 * half));
  return at::cat(parts, -1);
}

}  // namespace tandem::torch
