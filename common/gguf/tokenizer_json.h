// tokenizer.json and tokenizer_config.json of what a GGUF's metadata says.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/gguf/gguf_file.h"

namespace tandem::gguf {

// INVALID_ARGUMENT: a model of tokenizer or a pre-tokenizer that is not served, or lists that do
// not fit each other.
absl::StatusOr<std::string> TokenizerJson(const File& file);
absl::StatusOr<std::string> TokenizerConfigJson(const File& file);

}  // namespace tandem::gguf
