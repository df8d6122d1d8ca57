// Times of rounds of two lengths in turn: how much longer those of the second take. A machine that others share is
// fast or slow for tens of milliseconds at a time. Neighbours are as slow as each other, so pairs of them are compared.
//
// The ratio is that of the means, because lengths whose rounds are uneven have a mean far above most of their rounds. Its
// error is that of a ratio estimator (Cochran, Sampling Techniques, 1977, section 6.4).
//
// Plain value, not thread-safe.
#pragma once

#include <cstdint>

namespace tandem::orchestrator {

class PairedRounds {
 public:
  void Add(double first_seconds, double second_seconds);

  uint32_t count() const { return count_; }
  double first_seconds() const { return first_; }  // of all
  double second_seconds() const { return second_; }
  // Logarithm of the second over the first. There is at least one pair.
  double Ratio() const;
  double Error() const;  // standard deviation of it

 private:
  uint32_t count_ = 0;
  double first_ = 0, second_ = 0;
  double first_squares_ = 0, second_squares_ = 0, products_ = 0;
};

}  // namespace tandem::orchestrator
