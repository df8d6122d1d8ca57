// What a JSON document would take in memory, known before it is read.
//
// Two bytes of text can become a hundred in memory: an empty member is an object. So the text is
// looked at first, and what would take too much is refused before anything is allocated.
//
// Thread safety: a pure function.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace tandem::orchestrator {

struct JsonShape {
  size_t bytes = 0;  // from above
  size_t depth = 0;  // arrays and objects within each other
};

// Of a text that need not be JSON. Allocates nothing.
JsonShape ShapeOf(absl::string_view text);

}  // namespace tandem::orchestrator
