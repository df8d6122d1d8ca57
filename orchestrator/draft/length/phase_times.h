// Times of the rounds of one phase of a search (length_search.h). The first rounds of each sequence do not count for the
// mean, because they still share passes with the phase before.
//
// Plain value, not thread-safe. Seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem::orchestrator {

class PhaseTimes {
 public:
  // What a round of `seconds` is taken for: at most so many mean ones.
  double Clip(double seconds) const {
    return count_ > 4 ? std::min(seconds, kOutlier * sum_ / count_) : seconds;
  }
  void Add(double seconds) {
    all_ += seconds;
    ++all_count_;
  }
  // The round that was added counts for the mean.
  void Count(double seconds) {
    sum_ += seconds;
    squares_ += seconds * seconds;
    ++count_;
  }
  // Forgets the rounds that counted.
  void Restart() {
    count_ = 0;
    sum_ = squares_ = 0;
  }
  // They count half.
  void Fade() {
    count_ /= 2;
    sum_ *= 0.5;
    squares_ *= 0.5;
  }

  uint32_t count() const { return count_; }  // rounds that count
  uint32_t all_count() const { return all_count_; }
  double mean_of_all() const { return all_ / std::max(all_count_, 1u); }
  // Of those that count; of all where none does.
  double mean() const { return count_ > 0 ? sum_ / count_ : mean_of_all(); }
  // Standard deviation of the mean, relative; 0: not known. Rounds of one pass are not independent: so many passes have
  // been there as each of the `sequences` had rounds.
  double Error(uint32_t sequences) const {
    if (count_ < 2) return 0;
    const double mean = sum_ / count_;
    const double variance = std::max(0.0, squares_ / count_ - mean * mean);
    const double independent = std::max(1.0, static_cast<double>(count_) / sequences);
    return std::sqrt(variance / independent) / mean;
  }

 private:
  static constexpr double kOutlier = 5;

  uint32_t count_ = 0, all_count_ = 0;
  double sum_ = 0, squares_ = 0, all_ = 0;
};

}  // namespace tandem::orchestrator
