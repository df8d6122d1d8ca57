// Kernels of torch/kernels in the place of several operations.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch/kernels/pass_kernels.h"

namespace tandem::torch {

// x += added, where there is something to add, and then x's RMS norm (elementwise.h), as `type`: fp32
// or bf16. x and added: [rows, size], fp32, contiguous. On `stream` (torch/library/interface.h).
// Throws c10::Error where the device refuses.
at::Tensor AddedAndNormed(kernels::PassKernels& kernels, void* stream, const at::Tensor& x,
                          const at::Tensor& added, const at::Tensor& weight, double epsilon,
                          at::ScalarType type);

}  // namespace tandem::torch
