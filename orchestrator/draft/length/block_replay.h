// What a round of any number of candidates brings on the texts that were decoded, whatever number was asked for.
//
// Whether the draft's token is the target's depends on the text before it, and not on where a block began. So the
// rounds of one number tell at which tokens of a text the draft is right, and blocks of another number can be laid over
// the same tokens and counted. Counts by the position in a block do not carry over: easy tokens come in runs, short
// chains are accepted whole more often, so more of their blocks begin inside a run.
//
// One token of each chain that is accepted whole is not known: the target's own behind it, for which there was no
// candidate. It is guessed from what the tokens between known ones were: as many of them right as of those behind a run
// of as many right ones and before a token of the same kind. Guesses are not drawn. Each adds its chance to a sum, and
// is right where the sum is half a token ahead.
//
// Blocks are counted by position, for each number of candidates apart. So a block that is interrupted counts as far as
// it came: without that, of long blocks only those that end early would count.
//
// Plain value, not thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

class BlockReplay {
 public:
  // Where one text stands.
  struct Text {
    // Accepted so far in the present block of 1, 2, … candidates.
    std::array<uint8_t, kMaxDraftTokens> block{};
    uint32_t run = 0;  // right tokens in a row up to here, to kMaxRun
    // The last round, which is replayed when the next one tells whether its first candidate was right. 0: none.
    uint32_t asked = 0, accepted = 0;
    bool is_fixed = false;
  };

  // The next round of the text asked for `asked` candidates of a chain (1 to kMaxDraftTokens), and `accepted` of them
  // were accepted. `chance`: that the draft is right behind a whole chain, until there are counts. `is_fixed`: where the
  // chain ends has nothing to do with its tokens. Those that ended by confidence, with `asked` tokens, are replayed, too,
  // but their tokens are not what unknown ones are guessed from.
  void Observe(uint32_t asked, uint32_t accepted, bool is_fixed, double chance, Text& text);

  // Tokens of the text follow of which it is not known whether the draft is right: of a round without a draft, or of
  // another shape.
  static void Interrupt(Text& text) { text = {}; }

  // What was counted so far counts for no more than `tokens`.
  void Fade(double tokens);

  // Chance that the candidate at `position` (from 1) of a block of `asked` is accepted, given that those before it were.
  // `before`: the chance until there are counts.
  double At(uint32_t position, uint32_t asked, double before) const;

 private:
  static constexpr uint32_t kMaxRun = 3;
  static constexpr double kMemory = 10000;   // tokens; beyond them old ones fade
  static constexpr double kPriorWeight = 4;  // tokens

  using Positions = std::array<float, kMaxDraftTokens>;

  // Tokens behind a run of right ones and before a token that is right or not.
  struct Between {
    double right = 0, wrong = 0;
    double owed = 0;  // right tokens, less those that were guessed
  };

  void Replay(bool next, double chance, Text& text);
  void Count(bool right, bool next, const Text& text);
  bool Guess(bool next, double chance, const Text& text);
  void Step(bool right, Text& text);

  double replayed_ = 0;                              // tokens
  std::array<Positions, kMaxDraftTokens> tested_{};  // [asked - 1][position - 1]
  std::array<Positions, kMaxDraftTokens> accepted_{};
  std::array<std::array<Between, 2>, kMaxRun + 1> between_{};  // [run][next]
};

}  // namespace tandem::orchestrator
