// How a request went, for people: what is printed beside the text.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/common/outcome.h"

namespace tandem::client {

// The acceptance record in a few lines, with a bar for each number of accepted candidates, and where the
// rounds' time went, the most of it first. Waiting and the mean batch are named when they are more than
// kTrivialWait, and more than one sequence. The last line is TraceLine's.
inline constexpr absl::Duration kTrivialWait = absl::Milliseconds(1);
std::string Summary(const Outcome& outcome);

// "  trace 4bf9…": what to look the request up by; empty when it is not traced.
std::string TraceLine(const Outcome& outcome);

// All texts below each other, each under a line that names it. `first_sample`: the index of the
// first one. `complete`: the request ended; else each is what came of it.
std::string SamplesText(const Outcome& outcome, uint64_t first_sample, bool complete);

}  // namespace tandem::client
