#include "common/random/token_pairs.h"

#include <Random123/philox.h>

namespace tandem::random {
namespace {

double Open(uint32_t low, uint32_t high) {
  return (static_cast<double>((low | uint64_t{high} << 32) >> 12) + 0.5) * 0x1p-52;
}

void FillPairsPortable(const PairKey& key, uint32_t first, double* numbers) {
  const philox4x32_key_t philox_key = {
      {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)}};
  for (uint32_t i = 0; i < kPairs; ++i) {
    const philox4x32_ctr_t r =
        philox4x32_R(10, {{key.word0, first + i, key.word2, key.word3}}, philox_key);
    numbers[2 * i] = Open(r.v[0], r.v[1]);
    numbers[2 * i + 1] = Open(r.v[2], r.v[3]);
  }
}

}  // namespace

const std::vector<FillPairs>& SupportedFillPairs() {
  static const std::vector<FillPairs>* const ways = [] {
    auto* found = new std::vector<FillPairs>();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) found->push_back(&FillPairsAvx512);
    if (__builtin_cpu_supports("avx2")) found->push_back(&FillPairsAvx2);
#endif
    found->push_back(&FillPairsPortable);
    return found;
  }();
  return *ways;
}

}  // namespace tandem::random
