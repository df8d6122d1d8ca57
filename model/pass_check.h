// Whether a pass may be computed, before anything of it is.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/language_model.h"
#include "model/page_store.h"

namespace tandem::model {

// INVALID_ARGUMENT as LanguageModel::Forward says. Caches are PagedCaches of `store`. `step` is
// another number in each pass of a model, above 0: it tells a cache that comes twice.
absl::Status CheckPass(absl::Span<const ForwardPart> parts, const PageStore& store,
                       uint32_t vocabulary_size, int max_rows, uint64_t step);

}  // namespace tandem::model
