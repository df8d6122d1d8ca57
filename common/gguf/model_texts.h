// The text files of a model, by their paths: DIRECTORY/NAME of a Hugging Face directory, or
// FILE.gguf/NAME. A GGUF has no such files. What its metadata says is presented as them, so one set
// of readers serves both:
//
//   config.json             the architecture's numbers, under their names in transformers
//   generation_config.json  the tokens that end a text
//   tokenizer.json          vocabulary, merges, pre-tokenizer (tokenizer_json.h)
//   tokenizer_config.json   the names of tokens, and the chat template
//
// Thread safety: pure functions of the file system.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::gguf {

// Whether `model` is a file whose name ends with .gguf.
bool IsGguf(const std::string& model);

// Errors as base::ReadRegularFile's, and File::Open's. INVALID_ARGUMENT: the GGUF is of an
// architecture or a tokenizer that is not served; says which are. NOT_FOUND: a GGUF says nothing
// that would be in such a file.
absl::StatusOr<std::string> ReadModelText(const std::string& path, int64_t max_bytes);
absl::StatusOr<std::string> ReadModelTextIfThere(const std::string& path, int64_t max_bytes);
bool HasModelText(const std::string& path);

}  // namespace tandem::gguf
