// Bits that nobody can foresee, for seeds and names. All other random numbers are keyed (random.h).
#pragma once

#include <cstdint>

namespace tandem::random {

// Asks the operating system's generator. Thread-safe. It does not use std::random_device, which
// asks what the processor can do each time that one is made.
uint64_t FromSystem();

}  // namespace tandem::random
