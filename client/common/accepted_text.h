// Text for a terminal that tells what was drafted: accepted draft tokens have a colour of their
// own.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "client/common/terminal.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// The text of `delta`; its text_runs, if it has any, in colours. They cover the text (Collect).
std::string AcceptedText(const v1::Delta& delta, const TerminalStyle& style);

// "  green: draft tokens that the target accepted\n", in that colour; empty without colours.
std::string AcceptedLegend(const TerminalStyle& style);

}  // namespace tandem::client
