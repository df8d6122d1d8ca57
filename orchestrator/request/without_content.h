// What of a message may be logged.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

// The message of a status that a request ended with, or that a peer gave for a Step or a block of it: such
// a message may quote what the client sent, or name tokens. Quoted text becomes "…", a whole number that
// stands by itself becomes #. What is part of a word stays: addresses, durations, fractions.
//
//   ids.ids[3] is 70000; it must be …         ->  ids.ids[#] is #; it must be …
//   the stream to target 10.0.0.1:50 ended    ->  the same
//
// The client is told the whole message.
std::string WithoutContent(absl::string_view message);

}  // namespace tandem::orchestrator
