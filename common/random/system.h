// Bits that nobody can foresee, for seeds and names. All else that is random is keyed (random.h).
#pragma once

#include <cstdint>

namespace tandem::random {

// From the operating system's generator. Thread-safe. Not std::random_device, which asks the processor
// what it can do each time that one is made.
uint64_t FromSystem();

}  // namespace tandem::random
