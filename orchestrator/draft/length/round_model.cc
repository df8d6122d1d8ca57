#include "orchestrator/draft/length/round_model.h"

#include <algorithm>

namespace tandem::orchestrator {
namespace {

bool Pays(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
          const ByLength& tokens) {
  return BestLength(tokens, RoundTimes(parts, pass_time)) > 0;
}

}  // namespace

ByLength WholeBlocks() {
  ByLength whole;
  for (uint32_t k = 0; k < kLengths; ++k) whole[k] = k;
  return whole;
}

double RoundTime(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
                 uint32_t draft_tokens) {
  const double drafted = parts.drafted[draft_tokens];
  const double rows = drafted + 1.0;
  const double n = std::max(parts.sequences, 1.0);
  if (draft_tokens == 0) return parts.target_network + pass_time(n);
  const double aside =
      parts.draft_fixed + drafted * parts.draft_token + parts.draft_network + parts.target_network;
  const double together = aside + pass_time(n * rows);
  if (n < 2) return together;
  const double half = pass_time(n / 2 * rows);
  return std::min(together, std::max(aside + half, 2 * half));
}

double WorthwhileChance(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
                        uint32_t draft_tokens, double tokens) {
  const double n = std::max(parts.sequences, 1.0);
  const uint32_t k = std::max(draft_tokens, 1u);
  const double row = (pass_time(n * (k + 1.0)) - pass_time(n)) / k;
  const double time = RoundTime(parts, pass_time, draft_tokens);
  return (parts.draft_token + std::max(row, 0.0)) * tokens / time;
}

ByLength RoundTimes(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time) {
  ByLength times;
  for (uint32_t k = 0; k < kLengths; ++k) times[k] = RoundTime(parts, pass_time, k);
  return times;
}

uint32_t BestLength(const ByLength& tokens, const ByLength& times) {
  uint32_t best = 0;
  for (uint32_t k = 1; k < kLengths; ++k) {
    if (tokens[k] * times[best] > tokens[best] * times[k]) best = k;
  }
  return best;
}

ZeroCause WhyZero(const RoundParts& parts, absl::FunctionRef<double(double)> pass_time,
                  const ByLength& tokens) {
  RoundParts alone = parts;
  alone.sequences = 1;
  if (parts.sequences > 1 && Pays(alone, pass_time, tokens)) return ZeroCause::kLoad;
  RoundParts at_once = parts;
  at_once.draft_fixed = at_once.draft_token = at_once.draft_network = 0;
  return Pays(at_once, pass_time, tokens) ? ZeroCause::kSlowDraft : ZeroCause::kAcceptance;
}

}  // namespace tandem::orchestrator
