// The blocks that a draft made in advance, for outcomes of the block that is being verified
// (draft.proto, Assumption). The one whose assumption comes true is the next round's block, and
// nobody waits for it.
//
// Which is taken depends on the verdict: on a token of the target's. So they are asked for under
// rules greedy and coupled alone, which emit the target's own tokens whatever was drafted
// (common/acceptance/rule.h).
//
// Not thread-safe: used on the request's strand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

class PreparedBlocks {
 public:
  // `base` goes to verification, after `committed` tokens. What was prepared on another one is
  // dropped.
  void Begin(base::BlockId base, uint32_t committed);
  // Dropped: a block on another base, of no draft tokens, that is not a one-hot chain, a second one
  // for an outcome or of an id, and what is more than kMaxOutcomes.
  void Add(PreparedBlock prepared);
  void Decided(const BlockOutcome& outcome) { outcome_ = outcome; }
  // The block for the outcome that came true, if the text has `committed` tokens now, and whether
  // there was one. kNone: the text went on otherwise, or nothing was begun.
  struct Taken {
    PreparedUse use = PreparedUse::kNone;
    CandidateTree block;
  };
  Taken Take(uint32_t committed);
  void Clear();

  absl::Span<const PreparedBlock> blocks() const { return blocks_; }

 private:
  base::BlockId base_{};  // none: nothing was begun
  uint32_t committed_ = 0;
  std::vector<PreparedBlock> blocks_;
  std::optional<BlockOutcome> outcome_;  // of base_
};

}  // namespace tandem::orchestrator
