// Removes from a message what may not be logged.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

// Works on the message of a status that a request ended with, or that a peer gave for a Step or a
// block. Such a message may quote what the client sent, or name tokens. Quoted text becomes "…",
// and a whole number that stands by itself becomes #. Numbers within a word stay: addresses,
// durations, fractions.
//
//   ids.ids[3] is 70000; it must be …         ->  ids.ids[#] is #; it must be …
//   the stream to target 10.0.0.1:50 ended    ->  the same
//
// The client gets the whole message.
std::string WithoutContent(absl::string_view message);

}  // namespace tandem::orchestrator
