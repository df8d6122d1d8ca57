// Rotary position embedding: pairs of a head's elements are rotated by angles that grow with the
// position. Element i forms a pair with element i + rotary_size / 2, as in transformers' Llama; the
// elements from rotary_size on (RopeSpec) stay as they are.
#pragma once

#include <vector>

#include "model/spec/decoder_spec.h"

namespace tandem::model {

// The frequency of each pair, in radians a position: [rotary_size / 2]. Computed as transformers
// does (inv_freq) and rounded to float32.
std::vector<float> RopeFrequencies(const RopeSpec& rope, int head_size);

// Cosines and sines of all positions up to a bound that grows.
//
// Thread safety: many threads may Rotate; none while one grows the table.
class RopeTable {
 public:
  RopeTable(const RopeSpec& rope, int head_size);

  // Makes room for the positions 0 to positions - 1; never shrinks.
  void Grow(int positions);

  // out = `in` rotated by `position`, times `scale`; both are [head_size] and do not overlap.
  // `position` is below the bound.
  void Rotate(const float* in, int position, float scale, float* out) const;

 private:
  const int head_size_;
  const int half_;  // of what rotates
  const float attention_factor_;
  const std::vector<float> frequencies_;  // [half]
  std::vector<float> cosines_;            // [positions, half]
  std::vector<float> sines_;              // [positions, half]
};

}  // namespace tandem::model
