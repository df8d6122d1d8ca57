// Which files of a repository belong together.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::hub {

// What somebody wants of a repository.
enum class Need {
  kModel,      // what loads a model: config, weights, tokenizer
  kTokenizer,  // tokenizer.json, and tokenizer_config.json where there is one
};

inline constexpr char kSingleWeights[] = "model.safetensors";
inline constexpr char kWeightIndex[] = "model.safetensors.index.json";
inline constexpr int64_t kMaxIndexBytes = 64 << 20;  // of kWeightIndex

// Files whose absence means something, so that it must be known.
absl::Span<const char* const> OptionalFiles(Need need);

// The files that the text of a kWeightIndex names, in the order of their names, each once.
// INVALID_ARGUMENT: it is no such index, or names what is not a file of the same folder.
absl::StatusOr<std::vector<std::string>> IndexedFiles(absl::string_view text);

}  // namespace tandem::hub
