// What a round takes and gives, by the number K of its draft tokens, when all sequences of a group
// draft as many. It is an estimate from measured parts. LengthSearch corrects it by what rounds of
// each K really took.
//
// Plain values and pure functions. Times are in seconds.
#pragma once

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

inline constexpr uint32_t kLengths = kMaxDraftTokens + 1;
using ByLength = std::array<double, kLengths>;  // [K]

ByLength WholeBlocks();  // [K] = K

struct RoundParts {
  double sequences = 1;      // that are decoded at the target at the same time; at least 1
  double draft_fixed = 0;    // of a block, whatever its length
  double draft_token = 0;    // of one more draft token
  double draft_network = 0;  // to the draft and back
  double target_network = 0;
  ByLength drafted = WholeBlocks();  // candidates that come of K
};

// The time of a round with K draft tokens. `pass_time` is the time of a pass by its rows.
//
// With K = 0 all sequences share a pass (target_service/gathering.h). With a draft they either do
// the same, or they fall into two halves that draft and verify in turn. The shorter is taken:
//   together  draft + networks + pass(n (K + 1))
//   halves    max(draft + networks + pass(h (K + 1)), 2 pass(h (K + 1))), h = n / 2
double RoundTime(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time,
                 uint32_t draft_tokens);

// The chance of being accepted below which one more candidate costs more than it brings, when a round with
// `draft_tokens` gives `tokens` on average: its time at the draft, and what its rows add to the passes of all,
// against the tokens of that time.
double WorthwhileChance(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time,
                        uint32_t draft_tokens, double tokens);

// RoundTime of every K.
ByLength RoundTimes(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time);

// The K with the most tokens a time; the smallest of equals.
uint32_t BestLength(const ByLength& tokens, const ByLength& times);

// Why K = 0 is the best, by the same model. A draft would pay for the only sequence: kLoad. It would
// pay if it took no time: kSlowDraft. Else kAcceptance.
ZeroCause WhyZero(const RoundParts& parts, absl::FunctionRef<double(double rows)> pass_time,
                  const ByLength& tokens);

}  // namespace tandem::orchestrator
