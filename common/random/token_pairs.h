// The noise of neighbouring tokens, several pairs at a time: what TokenUniforms is made of. One
// Philox block is the numbers of two tokens (random.cc has the layout).
//
// Thread safety: all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::random {

// What a block's counter and key hold beside the pair's number, which is its second word.
struct PairKey {
  uint64_t seed;
  uint32_t word0, word2, word3;
};

// How many neighbouring pairs FillPairs makes at once.
inline constexpr size_t kPairs = 16;

// numbers[2 i] and numbers[2 i + 1] = the two numbers of pair first + i, for i below kPairs.
// first + kPairs - 1 is below 2^31.
using FillPairs = void (*)(const PairKey& key, uint32_t first, double* numbers);

// The same bits by each instruction set that this machine has, the fastest first; the last one
// needs none in particular.
const std::vector<FillPairs>& SupportedFillPairs();

// From their own sources, which are compiled for these instructions.
void FillPairsAvx2(const PairKey& key, uint32_t first, double* numbers);
void FillPairsAvx512(const PairKey& key, uint32_t first, double* numbers);

}  // namespace tandem::random
