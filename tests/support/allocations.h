// Counts what a test allocates: a program that links this has an operator new that counts.
// (Under a sanitizer it counts malloc, too.)
#pragma once

#include <cstdint>

namespace tandem::testing {

// Since the program began, by all threads.
int64_t Allocations();
// Bytes that are in use now, of all that malloc gave: other languages' too.
int64_t AllocatedBytes();

}  // namespace tandem::testing
