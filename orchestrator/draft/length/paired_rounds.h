// Times of rounds of two lengths in turn: how much longer those of the second take. A machine that others share is
// fast or slow for tens of milliseconds at a time. Neighbours are as slow as each other, so pairs of them are compared.
// Some rounds are slower by far, whatever their length: a pair with one that takes more than kSlow times the median of its
// length is left out. On two cores that others share that makes the error two thirds as large.
//
// The ratio is that of the means, because lengths whose rounds are uneven have a mean above most of their rounds. Its
// error is that of a ratio estimator (Cochran, Sampling Techniques, 1977, section 6.4).
//
// Plain value, not thread-safe. It holds all pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::orchestrator {

class PairedRounds {
 public:
  void Add(double first_seconds, double second_seconds);

  uint32_t count() const { return static_cast<uint32_t>(pairs_.size()); }
  double first_seconds() const { return first_; }  // of all
  double second_seconds() const { return second_; }

  struct Comparison {
    double ratio = 0;  // logarithm of the second over the first
    double error = 1;  // standard deviation of it
  };
  // There is at least one pair.
  Comparison Compare() const;

 private:
  static constexpr double kSlow = 2;

  struct Pair {
    double first, second;
  };

  double Median(double Pair::*time) const;

  std::vector<Pair> pairs_;
  double first_ = 0, second_ = 0;
};

}  // namespace tandem::orchestrator
