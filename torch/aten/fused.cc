#include "torch/aten/fused.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "torch/aten/element_type.h"
#include "torch/aten/guarded.h"

namespace tandem::torch {
at::Tensor AddedAndNormed(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                          const Addend& added, const at::Tensor& weight, double epsilon,
                          at::ScalarType type) {
  TORCH_CHECK(x.is_contiguous());
  const at::Tensor& branch = added.branch;
  TORCH_CHECK(!branch.defined() || (branch.is_contiguous() && branch.scalar_type() == type));
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(type));
  kernels::AddNormArguments a;
  a.residual = x.data_ptr<float>();
  if (branch.defined()) a.added = branch.const_data_ptr();
  if (added.weight.defined()) a.added_weight = added.weight.const_data_ptr<float>();
  a.added_scale = static_cast<float>(added.scale);
  if (weight.defined()) a.weight = weight.const_data_ptr<float>();
  a.out = out.data_ptr();
  a.size = static_cast<uint32_t>(x.size(1));
  a.epsilon = static_cast<float>(epsilon);
  ThrowIfFailed(kernels.AddNorm(ElementTypeOf(type), a, static_cast<uint32_t>(x.size(0)), stream));
  return out;
}

at::Tensor Gated(kernels::PassKernels& kernels, void* stream, kernels::GateKind kind,
                 const at::Tensor& gate_up) {
  TORCH_CHECK(gate_up.is_contiguous());
  at::Tensor out = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
  kernels::GateArguments a;
  a.in = gate_up.const_data_ptr();
  a.out = out.data_ptr();
  a.size = static_cast<uint32_t>(out.size(1));
  a.kind = kind;
  ThrowIfFailed(kernels.Gate(ElementTypeOf(out.scalar_type()), a,
                             static_cast<uint32_t>(out.size(0)), stream));
  return out;
}

Int8Rows QuantizedRows(kernels::PassKernels& kernels, void* stream, const at::Tensor& x) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat);
  const int64_t rows = x.size(0);
  const int64_t stride = PaddedColumnCount(x.size(1));
  Int8Rows out = {at::empty({rows, stride}, x.options().dtype(at::kChar)),
                  at::empty({rows}, x.options())};
  kernels::QuantizeArguments a;
  a.in = x.const_data_ptr<float>();
  a.out = out.integers.data_ptr<int8_t>();
  a.scales = out.scales.data_ptr<float>();
  a.size = static_cast<uint32_t>(x.size(1));
  a.stride = static_cast<uint32_t>(stride);
  ThrowIfFailed(kernels.Quantize(a, static_cast<uint32_t>(rows), stream));
  return out;
}

at::Tensor ScaledSums(kernels::PassKernels& kernels, void* stream, const at::Tensor& sums,
                      const at::Tensor& row_scales, const at::Tensor& output_scales) {
  TORCH_CHECK(sums.is_contiguous() && row_scales.is_contiguous() && output_scales.is_contiguous());
  at::Tensor out = at::empty({sums.size(0), output_scales.size(0)}, output_scales.options());
  kernels::ScaleArguments a;
  a.sums = sums.const_data_ptr<int32_t>();
  a.row_scales = row_scales.const_data_ptr<float>();
  a.output_scales = output_scales.const_data_ptr<float>();
  a.out = out.data_ptr<float>();
  a.size = static_cast<uint32_t>(out.size(1));
  a.stride = static_cast<uint32_t>(sums.size(1));
  ThrowIfFailed(kernels.Scale(a, static_cast<uint32_t>(out.size(0)), stream));
  return out;
}

}  // namespace tandem::torch
