// Times of rounds of two lengths in turn: how much longer those of the second take. A machine that others share is
// fast or slow for tens of milliseconds at a time. Neighbours are as slow as each other, so pairs of them are compared.
// Some rounds are slower by far, whatever their length: a pair with one that takes more than kSlow times the median is
// left out. On two cores that others share that makes the error two thirds as large. The median is that of rounds with
// about as many candidates: a drafter that looks for what the text has had has none in most rounds, and all in a few, and
// without these few a long block would look as cheap as a short one.
//
// The ratio is that of the means, because lengths whose rounds are uneven have a mean above most of their rounds. Its
// error is that of a ratio estimator (Cochran, Sampling Techniques, 1977, section 6.4).
//
// Plain value, not thread-safe. It holds all pairs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::orchestrator {

class PairedRounds {
 public:
  struct Round {
    double seconds = 0;
    uint32_t candidates = 0;  // that came; 0 for all where they are always as many
  };
  void Add(Round first, Round second);

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

  static constexpr size_t kClasses = 6;  // 0, 1, 2 and 3, 4 to 7, … candidates

  struct Pair {
    Round first, second;
  };
  using Limits = std::array<double, kClasses>;  // seconds, by the class of candidates

  static size_t ClassOf(uint32_t candidates);
  Limits SlowOf(Round Pair::*round) const;

  std::vector<Pair> pairs_;
  double first_ = 0, second_ = 0;
};

}  // namespace tandem::orchestrator
