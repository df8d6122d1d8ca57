#include "common/random/random.h"

#include <Random123/philox.h>

#include "common/base/check.h"
#include "common/random/token_pairs.h"

// Philox4x32-10: key = seed (low word first), counter = four words of 32 bits:
//
//               word 0      word 1       word 2                                   word 3
//   Uniform     position    committed    sample_index:16 | purpose:8 | level:8    0
//   TokenUniform(s)
//               position    token / 2    sample_index:16 | kPlain:8  | 0          1
//   DeriveDraftSeed
//               0           0            kDraftSeed << 16                         2
//
// Every part has bits of its own and word 3 tells the three layouts apart, so two different keys
// never share a counter, but for the two tokens of a pair, which take two halves of one block.
namespace tandem::random {
namespace {

enum Layout : uint32_t { kRoundLayout = 0, kTokenLayout = 1, kSeedLayout = 2 };

struct Block {
  uint64_t low, high;
};

Block Philox(uint64_t seed, uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3) {
  philox4x32_ctr_t counter = {{word0, word1, word2, word3}};
  philox4x32_key_t key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  philox4x32_ctr_t r = philox4x32_R(10, counter, key);
  return {r.v[0] | uint64_t{r.v[1]} << 32, r.v[2] | uint64_t{r.v[3]} << 32};
}

uint32_t Word2(uint32_t sample_index, Purpose purpose, uint8_t level) {
  TANDEM_CHECK(sample_index < 65536) << "sample index " << sample_index;
  return sample_index | static_cast<uint32_t>(purpose) << 16 | uint32_t{level} << 24;
}

// Odd multiples of 2^-53, so neither 0 nor 1: 52 bits, and a half.
double Open(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

void FillPairsPortable(const PairKey& key, uint32_t first, double* numbers) {
  for (uint32_t i = 0; i < kPairs; ++i) {
    const Block block = Philox(key.seed, key.word0, first + i, key.word2, key.word3);
    numbers[2 * i] = Open(block.low);
    numbers[2 * i + 1] = Open(block.high);
  }
}

constexpr uint32_t kWindow = 2 * kPairs;  // tokens
// So many of a window are dearer one by one than all of it at once.
constexpr size_t kFewOfWindow = 8;

// How many of `tokens`, which ascend, are in the window that begins with `first`.
size_t CountInWindow(absl::Span<const uint32_t> tokens, uint32_t first) {
  if (tokens.size() >= kWindow && tokens[kWindow - 1] - first == kWindow - 1) return kWindow;
  size_t count = 0;
  while (count < tokens.size() && tokens[count] - first < kWindow) ++count;
  return count;
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

double Uniform(const RoundKey& key, uint32_t position, Purpose purpose, uint8_t level) {
  Block block = Philox(key.seed, position, key.committed, Word2(key.sample_index, purpose, level),
                       kRoundLayout);
  return static_cast<double>(block.low >> 11) * 0x1p-53;
}

double TokenUniform(uint64_t seed, uint32_t sample_index, uint32_t position, uint32_t token) {
  double number;
  TokenUniforms(seed, sample_index, position, {&token, 1}, {&number, 1});
  return number;
}

void TokenUniforms(uint64_t seed, uint32_t sample_index, uint32_t position,
                   absl::Span<const uint32_t> tokens, absl::Span<double> numbers) {
  TANDEM_CHECK(tokens.size() == numbers.size());
  const uint32_t word2 = Word2(sample_index, Purpose::kPlain, 0);
  static const FillPairs fill_pairs = SupportedFillPairs().front();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint32_t token = tokens[i];
    const uint32_t first = token / kWindow * kWindow;
    const size_t count = CountInWindow(tokens.subspan(i), first);
    if (count >= kFewOfWindow) {
      double window[kWindow];
      double* const out = count == kWindow ? &numbers[i] : window;
      fill_pairs({seed, position, word2, kTokenLayout}, first / 2, out);
      if (out == window) {
        for (size_t j = 0; j < count; ++j) numbers[i + j] = window[tokens[i + j] - first];
      }
      i += count - 1;
      continue;
    }
    const Block block = Philox(seed, position, token / 2, word2, kTokenLayout);
    numbers[i] = Open(token % 2 == 0 ? block.low : block.high);
  }
}

uint64_t DeriveDraftSeed(uint64_t seed) {
  return Philox(seed, 0, 0, static_cast<uint32_t>(Purpose::kDraftSeed) << 16, kSeedLayout).low;
}

}  // namespace tandem::random
