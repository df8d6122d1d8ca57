// Counter-based random numbers: a value is a pure function of its key, so it does not depend on
// threads, on batches, or on how often a round was sent.
//
// Generator: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
// from Random123. The 64-bit seed is Philox's key; everything else is its counter. No arithmetic on
// seeds: two different keys never meet in one counter (random.cc shows the layout).
//
// Thread safety: all functions are pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace tandem::random {

// What a number is drawn for. The values are part of the contract: changing one changes every text
// that a seed gives.
enum class Purpose : uint8_t {
  kDraft = 1,      // a drafter draws a draft token
  kAccept = 2,     // the orchestrator tests a draft token
  kRecovered = 3,  // the target draws what follows a rejection
  kBonus = 4,      // the target draws what follows a block that stood whole
  kPlain = 5,      // one number a token: plain decoding (and the coupled rule)
  kDraftSeed = 6,  // derives a draft's seed
  kUser = 7,       // draws a seed's worth of anything else (a random drafter, back-off jitter)
};

// Key of one round of a sequence. `committed` is the number of committed tokens, prompt included,
// when the round began. It belongs in the key because rounds overlap in positions: a number drawn
// for a position past the end of one round must not be used again by the next.
struct RoundKey {
  uint64_t seed = 0;
  uint32_t sample_index = 0;  // below 65536
  uint32_t committed = 0;
};

// A number in [0, 1), a multiple of 2^-53. `level` 0 is the target's test; drafters that draw or
// test inside themselves use 1 and above.
double Uniform(const RoundKey& key, uint32_t position, Purpose purpose, uint8_t level = 0);

// A number in (0, 1) for one token at one position, independent of rounds: the noise of plain
// decoding. At least 32 bits count near 0 and near 1 (24 bits would give 0.502 to a token of
// probability 0.5).
double TokenUniform(uint64_t seed, uint32_t sample_index, uint32_t position, uint32_t token);

// The same for many tokens, which ascend: numbers[i] = TokenUniform(…, tokens[i]). Those that lie
// close take a small part of the time (token_pairs.h).
void TokenUniforms(uint64_t seed, uint32_t sample_index, uint32_t position,
                   absl::Span<const uint32_t> tokens, absl::Span<double> numbers);

// The seed that a draft gets. Never the request's own: a draft that knew the target's numbers could
// make draft tokens that depend on them, and the output would no longer follow p.
uint64_t DeriveDraftSeed(uint64_t seed);

}  // namespace tandem::random
