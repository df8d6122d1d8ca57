#include "orchestrator/draft/length/round_model.h"

#include <algorithm>

namespace tandem::orchestrator {
namespace {

bool Pays(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
          const ByShape& tokens) {
  return BestShape(tokens, RoundTimes(parts, pass_time)) > 0;
}

}  // namespace

ByShape WholeBlocks() {
  ByShape whole;
  for (uint32_t shape = 0; shape < kShapes; ++shape) {
    const DraftShape block = ShapeOf(shape);
    whole[shape] = IsTree(shape) ? block.nodes : block.tokens;
  }
  return whole;
}

double RoundTime(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
                 uint32_t shape) {
  const double rows = parts.drafted[shape] + 1.0;
  const double n = std::max(parts.sequences, 1.0);
  if (shape == 0) return parts.target_network + pass_time(n);
  const double tokens = IsTree(shape) ? ShapeOf(shape).tokens : parts.drafted[shape];
  const double aside =
      parts.draft_fixed + tokens * parts.draft_token + parts.draft_network + parts.target_network;
  const double together = aside + pass_time(n * rows);
  if (n < 2) return together;
  const double half = pass_time(n / 2 * rows);
  return std::min(together, std::max(aside + half, 2 * half));
}

ByShape RoundTimes(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time) {
  ByShape times;
  for (uint32_t i = 0; i < kShapes; ++i) times[i] = RoundTime(parts, pass_time, i);
  return times;
}

uint32_t BestShape(const ByShape& tokens, const ByShape& times) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < kShapes; ++i) {
    if (tokens[i] * times[best] > tokens[best] * times[i]) best = i;
  }
  return best;
}

ZeroCause WhyZero(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
                  const ByShape& tokens) {
  RoundParts alone = parts;
  alone.sequences = 1;
  if (parts.sequences > 1 && Pays(alone, pass_time, tokens)) return ZeroCause::kLoad;
  RoundParts at_once = parts;
  at_once.draft_fixed = at_once.draft_token = at_once.draft_network = 0;
  return Pays(at_once, pass_time, tokens) ? ZeroCause::kSlowDraft : ZeroCause::kAcceptance;
}

}  // namespace tandem::orchestrator
