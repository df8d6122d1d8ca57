#include "model/rope_table.h"

#include <cmath>
#include <cstddef>

namespace tandem::model {

std::vector<float> RopeFrequencies(const RopeSpec& rope, int head_size) {
  const double pi = 3.14159265358979323846;
  std::vector<float> frequencies(head_size / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / head_size);
    if (rope.scaling == RopeSpec::Scaling::kLlama3) {
      const double wavelength = 2 * pi / frequency;
      const double turns = rope.original_context / wavelength;
      if (turns < rope.low_freq_factor) {
        frequency /= rope.factor;
      } else if (turns <= rope.high_freq_factor) {
        double smooth =
            (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
        frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency;
      }
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeSpec& rope, int head_size)
    : half_(head_size / 2), frequencies_(RopeFrequencies(rope, head_size)) {}

void RopeTable::Grow(int positions) {
  const int have = static_cast<int>(cosines_.size()) / half_;
  if (positions <= have) return;
  cosines_.resize(static_cast<size_t>(positions) * half_);
  sines_.resize(cosines_.size());
  for (int position = have; position < positions; ++position) {
    for (int i = 0; i < half_; ++i) {
      // The angle is rounded to float32, as transformers does; its cosine only once.
      const double angle = static_cast<float>(position) * frequencies_[i];
      cosines_[static_cast<size_t>(position) * half_ + i] = static_cast<float>(std::cos(angle));
      sines_[static_cast<size_t>(position) * half_ + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void RopeTable::Rotate(const float* in, int position, float scale, float* out) const {
  const float* cosine = cosines_.data() + static_cast<size_t>(position) * half_;
  const float* sine = sines_.data() + static_cast<size_t>(position) * half_;
  for (int i = 0; i < half_; ++i) {
    const float first = in[i];
    const float second = in[i + half_];
    out[i] = (first * cosine[i] - second * sine[i]) * scale;
    out[i + half_] = (second * cosine[i] + first * sine[i]) * scale;
  }
}

}  // namespace tandem::model
