// What trials of lengths may cost, in phases of the best length (length_search.h). First trials have a credit of their
// own, which fades. Further ones wait until steady phases have earned what they cost.
//
// Plain value, not thread-safe.
#pragma once

#include <algorithm>

namespace tandem::orchestrator {

class TrialCredit {
 public:
  // A steady phase ended. `is_half`: half of the share is earned.
  void Earn(bool is_half) {
    earned_ = std::min(earned_ + (is_half ? kShare / 2 : kShare), kMaxEarned);
    first_ *= kFirstFade;
  }
  // Whether a trial that costs as much may begin.
  bool Pays(double cost, bool is_first) const {
    return (is_first ? first_ + earned_ : earned_) >= std::min(cost, kMaxEarned);
  }
  // A trial has cost so much. A negative cost was a gain.
  void Charge(double cost, bool is_first) {
    if (is_first) {
      const double paid = std::clamp(cost, 0.0, first_);
      first_ -= paid;
      cost -= paid;
    }
    earned_ -= cost;
  }
  // What was known is not true any more, so there are first trials again.
  void Renew() { first_ = std::max(first_, kFirst / 4); }

 private:
  static constexpr double kShare = 0.004;  // of the time may be lost by further trials
  static constexpr double kMaxEarned = 24;
  static constexpr double kFirst = 12;        // phases that first trials may cost together
  static constexpr double kFirstFade = 0.98;  // a phase

  double first_ = kFirst;
  double earned_ = 0;
};

}  // namespace tandem::orchestrator
