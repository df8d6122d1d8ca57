// Counts what a test allocates: a program that links this has an operator new that counts.
// (Under a sanitizer it counts malloc, too.)
#pragma once

#include <cstdint>

namespace tandem::testing {

// Since the program began, by all threads.
int64_t Allocations();

}  // namespace tandem::testing
