// What a round takes and gives, by the shape of its block (draft_shapes.h), when all sequences of a group
// draft the same. It is an estimate from measured parts. LengthSearch corrects it by what rounds of
// each shape really took.
//
// Plain values and pure functions. Times are in seconds.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "orchestrator/draft/length/draft_shapes.h"

namespace tandem::orchestrator {

ByShape WholeBlocks();  // candidates of a block that comes whole: K of a chain, the nodes of a tree

struct RoundParts {
  double sequences = 1;      // that are decoded at the target at the same time; at least 1
  double draft_fixed = 0;    // of a block, whatever its length
  double draft_token = 0;    // of one more draft token
  double draft_network = 0;  // to the draft and back
  double target_network = 0;
  ByShape drafted = WholeBlocks();  // candidates that come
};

// The time of a round with this shape. `pass_time` is the time of a pass by its rows.
//
// Without a draft all sequences share a pass (target_service/passes/gathering.h). With c candidates they either
// do the same, or they fall into two halves that draft and verify in turn. The shorter is taken:
//   together  draft + networks + pass(n (c + 1))
//   halves    max(draft + networks + pass(h (c + 1)), 2 pass(h (c + 1))), h = n / 2
// A chain takes the draft's time of a token for each candidate. A tree takes it for each token of its longest
// path: its draft has a pass a level, and what the rows of a level add is not known before it is tried.
double RoundTime(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time,
                 uint32_t shape);

// RoundTime of every shape.
ByShape RoundTimes(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time);

// The shape with the most tokens a time; the first of equals.
uint32_t BestShape(const ByShape& tokens, const ByShape& times);

// Why no draft is the best, by the same model. A draft would pay for the only sequence: kLoad. It would
// pay if it took no time: kSlowDraft. Else kAcceptance.
ZeroCause WhyZero(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time,
                  const ByShape& tokens);

}  // namespace tandem::orchestrator
