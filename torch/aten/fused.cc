#include "torch/aten/fused.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

namespace tandem::torch {
namespace {

template <typename Word>
void LaunchAddNorm(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                   const at::Tensor& added, const at::Tensor& weight, double epsilon,
                   const at::Tensor& out) {
  kernels::AddNormArguments<Word> a;
  a.residual = x.data_ptr<float>();
  if (added.defined()) a.added = added.const_data_ptr<float>();
  a.weight = weight.const_data_ptr<float>();
  a.out = static_cast<Word*>(out.data_ptr());
  a.size = static_cast<uint32_t>(x.size(1));
  a.epsilon = static_cast<float>(epsilon);
  const absl::Status status = kernels.AddNorm(a, static_cast<uint32_t>(x.size(0)), stream);
  TORCH_CHECK(status.ok(), status.message());
}

}  // namespace

at::Tensor AddedAndNormed(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                          const at::Tensor& added, const at::Tensor& weight, double epsilon,
                          at::ScalarType type) {
  TORCH_CHECK(x.is_contiguous() && (!added.defined() || added.is_contiguous()));
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(type));
  if (type == at::kBFloat16) {
    LaunchAddNorm<uint16_t>(kernels, stream, x, added, weight, epsilon, out);
  } else {
    LaunchAddNorm<float>(kernels, stream, x, added, weight, epsilon, out);
  }
  return out;
}

}  // namespace tandem::torch
