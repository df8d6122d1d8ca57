#include "orchestrator/draft/length/round_model.h"

#include <algorithm>

#include "common/theory/prepared.h"

namespace tandem::orchestrator {
namespace {

// Of a pass: who is away for longer is not waited for. The target waits for a fifth of the last
// pass, which may have been a little shorter than the one that is expected.
constexpr double kGathered = 0.16;
constexpr double kGroups = 2;  // of sequences that are not waited for
// Of the expected time to the verdict: blocks that are to be ready before it leave so much for what
// varies.
constexpr double kInTime = 0.95;
// A cause of no draft is what costs at least as much.
constexpr double kWorthwhile = 1.05;

bool Pays(const RoundParts& parts, PassTime pass_time, const ByShape& tokens) {
  const double plain = TimeOf(parts, pass_time, 0).time;
  for (uint32_t shape = 1; shape < kShapes; ++shape) {
    if (tokens[shape] * plain > kWorthwhile * TimeOf(parts, pass_time, shape).time) return true;
  }
  return false;
}

}  // namespace

RoundTime TimeOf(const RoundParts& parts, PassTime pass_time, uint32_t shape,
                 const PreparedShare& prepared) {
  const DecodingLoad& target = parts.decoding;
  const double n = std::max(target.sequences, 1u);
  const double rows = parts.drafted[shape] + 1;
  double aside = parts.target_network;
  double share = 1;
  if (target.pass_rows > 0) {
    const double taken = std::max<double>(target.pass_rows, target.pass_sequences * rows);
    share = std::min(1.0, taken / (n * rows));
  }
  if (shape > 0) {
    const double tokens = IsTree(shape) ? ShapeOf(shape).tokens : parts.drafted[shape];
    const theory::Preparing draft{parts.draft_fixed + parts.draft_network, parts.draft_token,
                                  prepared.row,
                                  prepared.chains ? kInTime * parts.target_network : 0};
    aside += theory::WaitForBlock(draft, std::max(tokens, 1e-3),
                                  static_cast<int>(prepared.outcomes * n), prepared.hits,
                                  kInTime * (parts.target_network + pass_time(share * n * rows)));
  }
  const bool gathered = n < 2 || aside <= kGathered * pass_time(share * n * rows);
  if (!gathered) share = std::min(share, 1 / kGroups);
  share = std::max(share, 1 / n);
  const double pass = pass_time(share * n * rows);
  return {std::max(aside + pass, pass / share), gathered};
}

ZeroCause WhyZero(const RoundParts& parts, PassTime pass_time, const ByShape& tokens) {
  RoundParts alone = parts;
  alone.decoding.sequences = 1;
  if (parts.decoding.sequences > 1 && Pays(alone, pass_time, tokens)) return ZeroCause::kLoad;
  RoundParts at_once = parts;
  at_once.draft_fixed = at_once.draft_token = at_once.draft_network = 0;
  return Pays(at_once, pass_time, tokens) ? ZeroCause::kSlowDraft : ZeroCause::kAcceptance;
}

}  // namespace tandem::orchestrator
