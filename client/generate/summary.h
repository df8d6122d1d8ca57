// The summary that is printed after a text.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "client/common/outcome.h"

namespace tandem::client {

// The acceptance record in a few lines: a bar for each number of accepted draft tokens, and the
// time of the rounds by stage, the longest first. Waiting times are named if they exceed
// kTrivialWait, and the mean batch if it exceeds one sequence. The last line is that of TraceLine.
inline constexpr absl::Duration kTrivialWait = absl::Milliseconds(1);
std::string Summary(const Outcome& outcome);

// "  trace 4bf9…": the id to look the request up by. Empty when it is not traced.
std::string TraceLine(const Outcome& outcome);

// All texts, each below a line that names it. `first_sample` is the index of the first one.
// `complete`: the request has ended; else the texts are what came before it failed.
std::string SamplesText(const Outcome& outcome, uint64_t first_sample, bool complete);

}  // namespace tandem::client
