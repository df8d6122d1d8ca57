// config.json and generation_config.json of what a GGUF's metadata says.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/gguf/gguf_file.h"

namespace tandem::gguf {

// INVALID_ARGUMENT: an architecture that is not served, a key that it needs and that is missing, or
// one that changes the arithmetic in a way that is not served.
absl::StatusOr<std::string> ConfigJson(const File& file);
// All tokens that end a text: end of text, of turn and of message.
std::string GenerationConfigJson(const File& file);

}  // namespace tandem::gguf
