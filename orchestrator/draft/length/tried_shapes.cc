#include "orchestrator/draft/length/tried_shapes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tandem::orchestrator {
namespace {

constexpr double kMinTrialWeight = 0.1;  // of a new trial beside those before
constexpr double kDrift = 0.02;          // of a length's ratio to the best one, from trial to trial
constexpr uint32_t kFailsBesideAnother = 2;  // that still count after a change of the best length
// How much better a length may be than it seems: one that was tried, an untried one, and that more for each step
// from a tried one. With many sequences neighbours differ by that much: rounds of one length fall into step with
// the passes, and those of the next do not.
constexpr double kBonus = 0.06;
constexpr double kUntriedBonus = 0.1;
constexpr double kStepBonus = 0.03;
constexpr double kMaxBonus = 0.2;

}  // namespace

void TriedShapes::Tried::Blend(double measured, double its_error, double max_weight) {
  const double variance = error * error + kDrift * kDrift;
  const double weight =
      std::clamp(variance / (variance + its_error * its_error), kMinTrialWeight, max_weight);
  time += weight * (measured - time);
  error = std::hypot((1 - weight) * std::sqrt(variance), weight * its_error);
}

void TriedShapes::PhaseEnded() {
  for (Tried& one : shapes_) one.since += 1;
}

void TriedShapes::ForgetAllBut(uint32_t one, uint32_t other) {
  for (uint32_t k = 0; k < kShapes; ++k) {
    if (k != one && k != other) shapes_[k] = {};
  }
}

void TriedShapes::Anchor(uint32_t best) {
  Tried& anchor = shapes_[best];
  if (anchor.error == 0) return;
  for (Tried& one : shapes_) {
    if (one.trials > 0) one.error = std::hypot(one.error, anchor.error);
  }
  anchor.error = 0;
}

void TriedShapes::ForgiveFails() {
  for (Tried& one : shapes_) one.fails = std::min(one.fails, kFailsBesideAnother);
}

ByShape TriedShapes::Fitted(const ByShape& model) const {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (uint32_t k = 0; k < kShapes; ++k) {
    if (shapes_[k].trials == 0) continue;
    const double time = std::exp(shapes_[k].time);
    n += 1;
    x += model[k];
    y += time;
    xx += model[k] * model[k];
    xy += model[k] * time;
  }
  const double spread = n * xx - x * x;
  if (n < 2 || !(spread > 1e-6 * n * xx)) return model;
  double b = std::max(0.0, (n * xy - x * y) / spread);
  double a = (y - b * x) / n;
  if (a < 0) {
    a = 0;
    b = xy / xx;
  }
  ByShape fitted;
  for (uint32_t k = 0; k < kShapes; ++k) fitted[k] = a + b * model[k];
  return fitted;
}

double TriedShapes::Untried(uint32_t length, uint32_t best, const ByShape& fitted) const {
  double sum = 0;
  double weights = 0;
  for (int step : {-1, 1}) {
    for (int i = static_cast<int>(length) + step; i >= 0 && i < static_cast<int>(kShapes);
         i += step) {
      if (!AreOfOneKind(i, length)) break;
      if (shapes_[i].trials == 0) continue;
      const double weight = 1.0 / std::abs(i - static_cast<int>(length));
      sum += weight * (shapes_[i].time + std::log(fitted[length] / fitted[i]));
      weights += weight;
      break;
    }
  }
  if (weights > 0) return sum / weights;
  if (shapes_[best].trials > 0) return shapes_[best].time + std::log(fitted[length] / fitted[best]);
  return std::log(fitted[length]);
}

ByShape TriedShapes::Times(const ByShape& model, uint32_t best) const {
  const ByShape fitted = Fitted(model);
  ByShape all;
  for (uint32_t k = 0; k < kShapes; ++k) {
    all[k] = std::exp(shapes_[k].trials > 0 ? shapes_[k].time : Untried(k, best, fitted));
  }
  return all;
}

double TriedShapes::Bonus(uint32_t length) const {
  if (shapes_[length].trials > 0) return kBonus / shapes_[length].trials;
  int steps = kShapes;
  for (uint32_t k = 0; k < kShapes; ++k) {
    if (shapes_[k].trials > 0 && AreOfOneKind(k, length)) {
      steps = std::min(steps, std::abs(static_cast<int>(k) - static_cast<int>(length)));
    }
  }
  // The first of its kind is as far away as the length beside the best one.
  if (steps == kShapes) steps = 1;
  return std::min(kMaxBonus, kUntriedBonus + steps * kStepBonus);
}

}  // namespace tandem::orchestrator
