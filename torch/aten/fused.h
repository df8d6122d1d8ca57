// Kernels of torch/kernels in the place of several operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch/kernels/pass_kernels.h"

namespace tandem::torch {

// All tensors are contiguous. On `stream` (torch/library/interface.h). Throw c10::Error where the device
// refuses.

// x += added, where there is something to add, and then x's RMS norm (elementwise.h), as `type`: fp32
// or bf16. x: [rows, size], fp32; added: the same, of `type`.
at::Tensor AddedAndNormed(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                          const at::Tensor& added, const at::Tensor& weight, double epsilon,
                          at::ScalarType type);

// SiLU of the first half of each row times the second half, of the same type: fp32 or bf16. gate_up:
// [rows, 2 · size].
at::Tensor Gated(kernels::PassKernels& kernels, void* stream, const at::Tensor& gate_up);

}  // namespace tandem::torch
