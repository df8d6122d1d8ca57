// Philox4x32-10 over lanes of 64 bits, one block in each, for the sources of one instruction set.
#pragma once

#include <cstring>

#include "common/random/token_pairs.h"

namespace tandem::random {

// `Way` is of the source's own, because code for one instruction set is not shared with another's:
//   Words, Doubles        vectors of as many uint64_t and double
//   Multiply(a, b)        the products of the lanes' low halves, 64 bits each
//   Sequence()            0, 1, … in the order in which Interleave expects the pairs
//   Interleave(a, b, to)  stores a and b as a0 b0 a1 b1 …, by the pairs' numbers
template <class Way>
struct PairLanes {
  using Words = typename Way::Words;
  using Doubles = typename Way::Doubles;
  static constexpr size_t kLanes = sizeof(Words) / sizeof(uint64_t);

  // Odd multiples of 2^-53 out of the high 52 bits: put below the exponent of 2^52 they are that
  // number more.
  static Doubles Open(Words bits) {
    const Words shifted = (bits >> 12) | uint64_t{0x4330'0000'0000'0000};
    Doubles number;
    std::memcpy(&number, &shifted, sizeof(number));
    return ((number - 0x1p52) + 0.5) * 0x1p-52;
  }

  static void Fill(const PairKey& key, uint32_t first, double* numbers) {
    constexpr uint64_t kLow = 0xffff'ffff;
    const Words zero = {};
    // Only the low half of a lane is read by a product, so whatever the high one holds may stay.
    for (size_t i = 0; i < kPairs; i += kLanes) {
      Words c0 = zero + key.word0;
      Words c1 = Way::Sequence() + (uint64_t{first} + i);
      Words c2 = zero + key.word2;
      Words c3 = zero + key.word3;
      uint32_t k0 = static_cast<uint32_t>(key.seed);
      uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
      for (int round = 0; round < 10; ++round) {
        const Words p0 = Way::Multiply(c0, zero + uint64_t{0xD251'1F53});
        const Words p1 = Way::Multiply(c2, zero + uint64_t{0xCD9E'8D57});
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += 0x9E37'79B9;
        k1 += 0xBB67'AE85;
      }
      Way::Interleave(Open((c0 & kLow) | (c1 << 32)), Open((c2 & kLow) | (c3 << 32)),
                      numbers + 2 * i);
    }
  }
};

}  // namespace tandem::random
