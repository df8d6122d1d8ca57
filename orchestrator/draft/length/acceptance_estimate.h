// How many draft tokens of a block are accepted: running counts that forget, by their position, and of blocks of each
// length (block_replay.h).
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "orchestrator/draft/length/block_replay.h"
#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class AcceptanceEstimate {
 public:
  // A round of `text` asked for `asked` tokens (1 to kMaxDraftTokens), and `accepted` of the `came` that came were
  // accepted. A block that was short or late counts as one whose missing tokens were rejected: what
  // counts is what asking for a position brings.
  void Observe(uint32_t asked, uint32_t came, uint32_t accepted, BlockReplay::Text& text);

  // The same of a round whose chain may have ended by confidence. It tells at which tokens of the text the draft is right,
  // and nothing of the positions in a block.
  void ObserveConfident(uint32_t came, uint32_t accepted, BlockReplay::Text& text);

  // What was counted so far counts for no more than `tests` tests a position.
  void Fade(double tests);

  // Chance that the token at `position` (from 1) is accepted, given that those before it were, in the blocks that were
  // asked for, whatever their lengths. The prior of position 1 is kPrior, that of each further one is the estimate of
  // the position before.
  double At(uint32_t position) const;

  // Expected tokens of a round that asks for `asked`: 1 + the sum over positions of the chance that all up to it are
  // accepted (Leviathan et al. 2023, equation 1, with a chance for each position), in blocks of that length.
  double Tokens(uint32_t asked) const;
  // The same, of all rounds of texts of `text_tokens` tokens on average (above 0, infinity: without an end). The last
  // round of a text has room for fewer tokens. What it would have had beyond, on average, is that of a renewal process:
  // (E[X²] / E[X] - 1) / 2, X the tokens of a round.
  double TokensInTexts(uint32_t asked, double text_tokens) const;

  // Expected tokens of a block of which `asked` were asked for: drafts may end blocks early. `asked` before any.
  double Drafted(uint32_t asked) const;

  // Accepted tokens over tokens that were tested, all positions together; kPrior before any.
  double alpha() const;
  bool empty() const { return tested_[0] == 0; }

 private:
  static constexpr double kPrior = 0.7;
  static constexpr double kPriorWeight = 4;  // tested tokens
  static constexpr double kMemory = 2000;    // of tests a position; beyond it old ones fade

  struct Moments {
    double first = 1, second = 1;
  };
  // What follows from the counts, by the tokens that are asked for.
  struct Derived {
    std::array<Moments, kMaxDraftTokens + 1> tokens;  // of a round
    std::array<double, kMaxDraftTokens + 1> drafted;
  };
  Moments TokensOfARound(uint32_t asked) const;  // asked: to kMaxDraftTokens
  // Of the present counts. Plain rounds change none, and ask for it as often as others.
  const Derived& derived() const;
  // Every round that counts comes by here.
  void Replay(uint32_t asked, uint32_t accepted, bool is_fixed, BlockReplay::Text& text);

  BlockReplay replay_;
  std::array<double, kMaxDraftTokens> tested_{};
  std::array<double, kMaxDraftTokens> accepted_{};
  std::array<double, kMaxDraftTokens> asked_{};
  std::array<double, kMaxDraftTokens> came_{};
  mutable std::optional<Derived> derived_;  // none: a count has changed since
};

}  // namespace tandem::orchestrator
