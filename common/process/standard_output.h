// Standard output of a program. A write that fails is not lost.
//
// Thread safety: one thread.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::process {

// Writes `text` and flushes it. After the first failure it writes nothing more.
void Print(absl::string_view text);

// OK if every text was written. DATA_LOSS has the reason of the first failure: "standard output
// cannot be written: No space left on device".
absl::Status PrintStatus();

}  // namespace tandem::process
