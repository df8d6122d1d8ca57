// How many seeds a test of random orders tries. `scripts/test --full` tries more than CI.
#ifndef TANDEM_TESTS_SUPPORT_FUZZ_SEEDS_H_
#define TANDEM_TESTS_SUPPORT_FUZZ_SEEDS_H_

#include <cstdint>
#include <cstdlib>

namespace tandem::testing {

// `usual` times the whole number in the environment's TANDEM_TEST_SEEDS_FACTOR; absent: 1.
inline uint32_t FuzzSeeds(uint32_t usual) {
  const char* factor = std::getenv("TANDEM_TEST_SEEDS_FACTOR");
  return factor == nullptr ? usual : usual * static_cast<uint32_t>(std::atoi(factor));
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_FUZZ_SEEDS_H_
