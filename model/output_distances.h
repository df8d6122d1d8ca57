// How far each token's output embedding lies from their mean: what a model says of a token without
// any context (Stewart et al. 2024, arXiv 2411.03786, §4.1: p(x) ∝ exp(-|u_x - mean|)).
//
// Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_files.h"

namespace tandem::model {

// Euclidean, one per row of the output matrix, in double precision over the file's values.
std::vector<double> OutputDistances(const ModelFiles& files);

}  // namespace tandem::model
