// The names of the parts of a split GGUF: NAME-00001-of-0000N.gguf and on.
//
// Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::gguf {

// All parts of the model whose first part, or only file, is `path`: in their order, `path` first.
// It is just `path` where that is not the name of a part. INVALID_ARGUMENT: it is the name of
// another part than the first, or says more parts than any model has.
absl::StatusOr<std::vector<std::string>> PartsOf(const std::string& path);

}  // namespace tandem::gguf
