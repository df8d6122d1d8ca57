// Kernels of torch/kernels in the place of several operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch/aten/int8.h"
#include "torch/kernels/pass_kernels.h"

namespace tandem::torch {

// All tensors are contiguous. On `stream` (torch/library/interface.h). Throw c10::Error where the
// device refuses.

// What is to be added to a residual: `branch`, or its RMS norm, times `scale`.
struct Addend {
  at::Tensor branch;  // [rows, size]; undefined: nothing is
  at::Tensor weight;  // fp32; undefined: it is not normed
  double scale = 1;
};

// x += added, where there is something to add, and then x's RMS norm (elementwise.h), or without a
// weight x, as `type`: fp32, bf16 or fp16. x: [rows, size], fp32; added: the same, of `type`.
at::Tensor AddedAndNormed(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                          const Addend& added, const at::Tensor& weight, double epsilon,
                          at::ScalarType type);

// The activation of the first half of each row times the second half, of the same type: fp32, bf16
// or fp16. gate_up: [rows, 2 · size].
at::Tensor Gated(kernels::PassKernels& kernels, void* stream, kernels::GateKind kind,
                 const at::Tensor& gate_up);

// Quantized and Scaled of int8.h, with their bits. x: [rows, columns], fp32; sums: int32.
Int8Rows QuantizedRows(kernels::PassKernels& kernels, void* stream, const at::Tensor& x);
at::Tensor ScaledSums(kernels::PassKernels& kernels, void* stream, const at::Tensor& sums,
                      const at::Tensor& row_scales, const at::Tensor& output_scales);

}  // namespace tandem::torch
