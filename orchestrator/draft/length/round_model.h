// What a round takes, by the shape of its block (draft_shapes.h), when all sequences of a target
// draft the same: a closed form of measured parts. Expected tokens per time of it decide
// (length_group.h).
//
// Plain values and pure functions. Times are in seconds.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "orchestrator/draft/length/draft_shapes.h"

namespace tandem::orchestrator {

using PassTime = absl::FunctionRef<double(double rows)>;

struct RoundParts {
  DecodingLoad decoding;      // sequences: at least 1
  double draft_fixed = 0;     // of a block, whatever its length
  double draft_token = 0;     // of one more draft token
  double draft_network = 0;   // to the draft and back
  double target_network = 0;  // to the target and back, and the orchestrator's own
  ByShape drafted{};          // draft tokens that come
};

// For blocks prepared in advance (common/theory/prepared.h).
struct PreparedShare {
  uint32_t outcomes = 0;  // 0: none are prepared
  double hits = 0;        // of the verdicts that find their block
  double row = 0;         // what each further row adds to a draft pass, as a share of it
  bool chains = false;    // the target goes on with such blocks by itself
};

struct RoundTime {
  double time = 0;
  // The target's next pass waits for the sequence (target_service/passes/gathering.h), so all share
  // a pass.
  bool gathered = true;
};

// A sequence is away from the target for `aside`: it drafts, and messages travel. Of the sequences
// a pass takes a share: all that are gathered; one half of those that are away for longer, because
// then there are two groups that alternate between drafting and verifying; and in any case no more
// rows than the target aims at. With r rows per sequence and n sequences:
//
//   time  max(aside + pass(share n r), pass(share n r) / share)
//
// A chain takes the draft's time of a token for each that comes. A tree takes it for each token of
// its longest path: its draft has a pass per level. Of a chain whose block is prepared the wait for
// it is theory::WaitForBlock, with the rows of all n sequences in the draft's passes.
RoundTime TimeOf(const RoundParts& parts, PassTime pass_time, uint32_t shape,
                 const PreparedShare& prepared = {});

// Why no draft is the best, by the same model: would a draft that took no time pay, and for the
// only sequence?
ZeroCause WhyZero(const RoundParts& parts, PassTime pass_time, const ByShape& tokens);

}  // namespace tandem::orchestrator
