// A drafter that draws tokens uniformly from the vocabulary: almost all of its draft tokens are
// rejected, and the text must not show it. Tests plant it in a draft service by
// draft_service::Options::drafters; no program offers it.
//
// Thread safety: as draft_service::Drafter.
#pragma once

#include <cstdint>
#include <string>

#include "draft_service/drafters/drafter.h"

namespace tandem::testing {

struct RandomDrafterOptions {
  std::string name = "random";
  uint32_t vocabulary_size = 0;  // at least 1
};

// Up to a vocabulary of sampling::kMaxSparseEntries it sends its q. Above that, at temperature 0,
// under rule coupled (which needs no q) and for Proposal::kGreedy the block is one-hot, which is
// exact because the draw depends on no text. The draw is uniform whatever the options say: banned
// tokens stay in the block.
draft_service::DrafterFactory RandomDrafterFactory(RandomDrafterOptions options);

}  // namespace tandem::testing
