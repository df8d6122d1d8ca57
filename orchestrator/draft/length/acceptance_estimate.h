// The tokens that a round brings, by the shape of its block: running counts that forget.
//
// Chains of a fixed length share one count per position: a chance that the token there is accepted,
// given those before it, so each length tells of the others (Leviathan et al. 2023, equation 1,
// with a chance per position). Trees and chains that end by confidence are counted whole, for what
// a draft says of its tokens may be far from the chance that they are accepted. One that was not
// seen lately is expected to be a little better than chains are: so it is asked for, and measured.
//
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/draft_shapes.h"

namespace tandem::orchestrator {

class AcceptanceEstimate {
 public:
  // A round asked for `shape`, cut to at most `asked` tokens on a path where the text had no room;
  // `came` draft tokens came (of a tree: nodes), and `accepted` were accepted. A block that was
  // short or late counts as one whose missing tokens were rejected: what counts is what asking
  // brings.
  void Observe(uint32_t shape, uint32_t asked, uint32_t came, uint32_t accepted);

  struct Expected {
    ByShape tokens;   // of a round: accepted draft tokens and one of the target's own
    ByShape drafted;  // draft tokens that come
  };
  // `chain`: the chain that is the best, so far as that is known; what was not seen is compared
  // with it.
  Expected Expect(uint32_t chain) const;

  double alpha() const;  // accepted over tested tokens, all positions together; kPrior before any
  bool empty() const { return all_tested_ == 0; }

 private:
  static constexpr double kPrior = 0.7;  // chance of a draft token before any was tested
  static constexpr double kPriorWeight =
      4;                                  // tested tokens, or rounds, that an expectation counts as
  static constexpr double kKept = 0.999;  // of a count, with each further one: a memory of 1,000

  struct Sums {
    double rounds = 0, came = 0, accepted = 0;
  };

  std::array<double, kMaxDraftTokens> tested_{}, accepted_{};  // by position
  double all_tested_ = 0, all_accepted_ = 0;
  std::array<double, kMaxDraftTokens> asked_{}, came_{};
  std::array<Sums, kShapes - kFirstConfident> whole_{};
};

}  // namespace tandem::orchestrator
