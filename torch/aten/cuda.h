// What a CUDA device needs before the first tensor is on it.
#pragma once

#include "absl/status/status.h"

namespace tandem::torch {

// Loads LibTorch's CUDA half, and sets what makes products independent of the batch. Only ATen's
// operations are used, so building this requires no header of CUDA. FAILED_PRECONDITION: what is
// missing, and how to get it; or there is no device of this number.
absl::Status StartCuda(int card);

}  // namespace tandem::torch
