// Random values for tests of kernels.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace tandem::model::cpu {

// From a normal distribution with mean 0 and standard deviation `scale`.
inline std::vector<float> Normal(std::mt19937& random, size_t count, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace tandem::model::cpu
