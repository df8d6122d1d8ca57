// Checks a prompt before it is sent.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tandem::client {

bool IsUtf8(absl::string_view text);

// INVALID_ARGUMENT if the prompt is empty or not UTF-8. `source` names it in the message:
// "--prompt", or the name of a file.
absl::Status CheckPrompt(absl::string_view prompt, absl::string_view source);

}  // namespace tandem::client
