// Rotary position embedding: pairs of a head's elements are rotated by angles that grow with the
// position. Element i forms a pair with element i + head_size / 2, as in transformers' Llama.
#pragma once

#include <vector>

#include "model/spec/decoder_spec.h"

namespace tandem::model {

// The frequency of each pair, in radians a position: [head_size / 2]. Computed as transformers does
// (inv_freq) and rounded to float32. Source of kLlama3: transformers, modeling_rope_utils.py.
std::vector<float> RopeFrequencies(const RopeSpec& rope, int head_size);

// Cosines and sines of all positions up to a bound that grows.
//
// Thread safety: many threads may Rotate; none while one grows the table.
class RopeTable {
 public:
  // All of a head rotates; the spec's partial_rotary_factor is 1.
  RopeTable(const RopeSpec& rope, int head_size);

  // Makes room for the positions 0 to positions - 1; never shrinks.
  void Grow(int positions);

  // out = `in` rotated by `position`, times `scale`; both are [head_size] and do not overlap.
  // `position` is below the bound.
  void Rotate(const float* in, int position, float scale, float* out) const;

 private:
  const int half_;                        // of a head
  const std::vector<float> frequencies_;  // [half]
  std::vector<float> cosines_;            // [positions, half]
  std::vector<float> sines_;              // [positions, half]
};

}  // namespace tandem::model
