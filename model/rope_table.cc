#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tandem::model {

namespace {

constexpr double kPi = 3.14159265358979323846;

double Llama3(const RopeSpec& rope, double frequency) {
  const double wavelength = 2 * kPi / frequency;
  const double turns = rope.original_context / wavelength;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns <= rope.high_freq_factor) {
    double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency;
  }
  return frequency;
}

// From which pair on frequencies are divided in part, and from which on wholly.
struct YarnRamp {
  double begin;
  double end;
};

YarnRamp MakeYarnRamp(const RopeSpec& rope, int size) {
  // The pair that turns so often within the original context.
  auto pair_of = [&](double turns) {
    return size * std::log(rope.original_context / (turns * 2 * kPi)) / (2 * std::log(rope.theta));
  };
  YarnRamp ramp{pair_of(rope.beta_fast), pair_of(rope.beta_slow)};
  if (rope.truncate) ramp = {std::floor(ramp.begin), std::ceil(ramp.end)};
  ramp = {std::clamp(ramp.begin, 0.0, 1e9), std::min(ramp.end, size - 1.0)};
  if (ramp.begin == ramp.end) ramp.end += 0.001;
  return ramp;
}

}  // namespace

std::vector<float> RopeFrequencies(const RopeSpec& rope, int head_size) {
  const int size = rope.rotary_size(head_size);
  const YarnRamp ramp =
      rope.scaling == RopeSpec::Scaling::kYarn ? MakeYarnRamp(rope, size) : YarnRamp{0, 1};
  std::vector<float> frequencies(size / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / size);
    switch (rope.scaling) {
      case RopeSpec::Scaling::kNone:
        break;
      case RopeSpec::Scaling::kLinear:
        frequency /= rope.factor;
        break;
      case RopeSpec::Scaling::kLlama3:
        frequency = Llama3(rope, frequency);
        break;
      case RopeSpec::Scaling::kYarn: {
        const double share = (static_cast<double>(i) - ramp.begin) / (ramp.end - ramp.begin);
        const double divided = std::clamp(share, 0.0, 1.0);
        frequency = frequency / rope.factor * divided + frequency * (1 - divided);
        break;
      }
      case RopeSpec::Scaling::kLongRope:
        frequency /= rope.divisors[i];
        break;
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeSpec& rope, int head_size)
    : head_size_(head_size),
      half_(rope.rotary_size(head_size) / 2),
      attention_factor_(static_cast<float>(rope.attention_factor)),
      frequencies_(RopeFrequencies(rope, head_size)) {}

void RopeTable::Grow(int positions) {
  const int have = static_cast<int>(cosines_.size()) / half_;
  if (positions <= have) return;
  cosines_.resize(static_cast<size_t>(positions) * half_);
  sines_.resize(cosines_.size());
  for (int position = have; position < positions; ++position) {
    for (int i = 0; i < half_; ++i) {
      // The angle is rounded to float32, as transformers does; its cosine only once.
      const double angle = static_cast<float>(position) * frequencies_[i];
      cosines_[static_cast<size_t>(position) * half_ + i] =
          static_cast<float>(std::cos(angle)) * attention_factor_;
      sines_[static_cast<size_t>(position) * half_ + i] =
          static_cast<float>(std::sin(angle)) * attention_factor_;
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
  for (int i = 2 * half_; i < head_size_; ++i) out[i] = in[i] * scale;
}

}  // namespace tandem::model
