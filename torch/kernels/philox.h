// The noise of plain decoding, random::TokenUniform, as the judge draws it: Philox4x32-10 (Salmon
// et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), keyed and laid out as
// common/random/random.cc does.
//
// Thread safety: pure functions.
#pragma once

#include "common/base/host_device.h"

namespace tandem::kernels {

// The numbers of the tokens 2 * pair and 2 * pair + 1 at one position, each in (0, 1).
struct NoisePair {
  double even, odd;
};

TANDEM_HOST_DEVICE NoisePair TokenNoise(uint64_t seed, uint32_t sample_index, uint32_t position,
                                        uint32_t pair) {
  constexpr uint32_t kPlain = 5, kTokenLayout = 1;  // random::Purpose::kPlain, random.cc's layouts
  uint32_t x0 = position, x1 = pair, x2 = sample_index | kPlain << 16, x3 = kTokenLayout;
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD251'1F53} * x0;
    const uint64_t product2 = uint64_t{0xCD9E'8D57} * x2;
    x0 = static_cast<uint32_t>(product2 >> 32) ^ x1 ^ key0;
    x1 = static_cast<uint32_t>(product2);
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x3 = static_cast<uint32_t>(product0);
    key0 += 0x9E37'79B9;
    key1 += 0xBB67'AE85;
  }
  // Odd multiples of 2^-53.
  const auto open = [](uint32_t low, uint32_t high) {
    const uint64_t bits = uint64_t{high} << 32 | low;
    return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  };
  return {open(x0, x1), open(x2, x3)};
}

}  // namespace tandem::kernels
