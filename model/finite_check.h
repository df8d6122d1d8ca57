// Weights that are numbers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "model/dtype.h"
#include "model/files/safetensors.h"

namespace tandem::model {

// INVALID_ARGUMENT names the tensor `name`, its first element that is NaN or infinite, or that
// becomes infinite where a matrix is held as `dtype` (kFloat16 ends at 65504). OK for a tensor of
// whole numbers. Reads the whole tensor, at the speed of memory.
absl::Status CheckFinite(const std::string& name, const TensorView& view, Dtype dtype);

}  // namespace tandem::model
