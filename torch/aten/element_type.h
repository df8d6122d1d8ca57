// How the kernels of torch/kernels call LibTorch's types.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "torch/kernels/numbers.h"

namespace tandem::torch {

// Throws c10::Error for a type that no kernel has.
inline kernels::ElementType ElementTypeOf(at::ScalarType type) {
  if (type == at::kBFloat16) return kernels::ElementType::kBfloat16;
  if (type == at::kHalf) return kernels::ElementType::kFloat16;
  TORCH_CHECK(type == at::kFloat);
  return kernels::ElementType::kFloat32;
}

}  // namespace tandem::torch
