#include "torch/aten/int8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

namespace tandem::torch {
namespace {

constexpr int64_t kGroup = 8;  // CUDA's product takes whole ones

int64_t Missing(int64_t count) { return (kGroup - count % kGroup) % kGroup; }

}  // namespace

Int8Rows Quantized(const at::Tensor& x) {
  const at::Tensor largest = x.abs().amax(-1, /*keepdim=*/true);
  // Divided by tensors: ATen multiplies by the reciprocal of a number.
  const at::Tensor most = at::full_like(largest, 127.0);
  const at::Tensor zero = at::zeros_like(largest);
  // Below this 127 / largest is infinite: such a row counts as zeros.
  const at::Tensor counts = largest.ge(std::numeric_limits<float>::min());
  const at::Tensor finite = largest.isfinite();
  const at::Tensor nan = at::full_like(largest, std::numeric_limits<double>::quiet_NaN());
  const at::Tensor inverse = at::where(counts.logical_and(finite), most.div(largest), zero);
  const at::Tensor scale = at::where(finite, at::where(counts, largest.div(most), zero), nan);
  // A product of two fp32 numbers is exact in fp64, so it is rounded once, ties to even.
  const at::Tensor exact = x.to(at::kDouble).mul(inverse.to(at::kDouble)).round_();
  const at::Tensor integers = at::where(inverse.gt(0), exact, zero.to(at::kDouble)).to(at::kChar);
  return {PaddedColumns(integers), scale.squeeze(-1)};
}

int64_t PaddedColumnCount(int64_t columns) { return columns + Missing(columns); }

at::Tensor PaddedColumns(const at::Tensor& integers) {
  const int64_t missing = Missing(integers.size(1));
  return missing == 0 ? integers : at::constant_pad_nd(integers, {0, missing});
}

at::Tensor PaddedRows(const at::Tensor& integers) {
  const int64_t missing = Missing(integers.size(0));
  return missing == 0 ? integers : at::constant_pad_nd(integers, {0, 0, 0, missing});
}

at::Tensor Scaled(const at::Tensor& sums, const at::Tensor& row_scales,
                  const at::Tensor& output_scales) {
  return sums.slice(1, 0, output_scales.size(0))
      .to(at::kFloat)
      .mul_(row_scales.unsqueeze(1))
      .mul_(output_scales);
}

bool Int8SumsAreExact(int rows, at::Device device) {
  constexpr int64_t kInputs = 64;
  const auto where = at::TensorOptions().dtype(at::kChar).device(device);
  const at::Tensor x = at::full({rows, kInputs}, 127, where);
  for (const int64_t weight : {127, -127, -128}) {
    const at::Tensor sums = at::_int_mm(x, at::full({kInputs, kInputs}, weight, where).t());
    if (!sums.eq(kInputs * 127 * weight).all().item<bool>()) return false;
  }
  return true;
}

}  // namespace tandem::torch
