// What a CUDA device needs before the first tensor is on it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tandem::torch {

// Loads LibTorch's CUDA half, sets what makes products independent of the batch, and gives the
// name of the first device ("NVIDIA H200"). Only ATen's operations are used, so no header of CUDA
// is needed to build this. FAILED_PRECONDITION: what is missing, and how to get it.
absl::StatusOr<std::string> StartCuda();

}  // namespace tandem::torch
