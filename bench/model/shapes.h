// The shapes of models that people have, for random weights.
#pragma once

#include <vector>

#include "bench/model/random_model.h"

namespace tandem::bench {

struct Shape {
  const char* name;
  const char* what;
  model::DecoderSpec spec;
};

inline std::vector<Shape> Shapes(int context) {
  return {{"135M", "SmolLM2-135M", RandomSpec(576, 1536, 30, 9, 3, 49152, context)},
          {"0.5B", "Qwen2.5-0.5B", RandomSpec(896, 4864, 24, 14, 2, 151936, context)},
          {"1B", "Llama-3.2-1B", RandomSpec(2048, 8192, 16, 32, 8, 128256, context)},
          {"7B", "four layers of a 7B", RandomSpec(4096, 11008, 4, 32, 32, 32000, context)}};
}

}  // namespace tandem::bench
