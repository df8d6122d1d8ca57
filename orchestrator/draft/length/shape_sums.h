// Rounds that asked for one shape of a block, the candidates that came, and those that were accepted. Old rounds fade.
//
// Plain value, not thread-safe.
#pragma once

#include <cmath>
#include <cstdint>

namespace tandem::orchestrator {

struct ShapeSums {
  static constexpr double kMemory = 1000;  // rounds; beyond them old ones fade

  double rounds = 0, came = 0, accepted = 0;

  void Add(uint32_t candidates_came, uint32_t candidates_accepted) {
    if (rounds >= kMemory) {
      for (double* sum : {&rounds, &came, &accepted}) *sum *= 0.5;
    }
    rounds += 1;
    came += candidates_came;
    accepted += candidates_accepted;
  }
  double tokens() const { return rounds + accepted; }  // one of the target's own a round

  // Of the mean of tokens(), relative, where so many rounds were known before.
  double TokensError(double prior_rounds) const {
    return kSpread / std::sqrt(prior_rounds + rounds);
  }

 private:
  static constexpr double kSpread = 0.5;  // of one round's tokens, to their mean
};

}  // namespace tandem::orchestrator
