#include "orchestrator/draft/length/block_replay.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::orchestrator {

void BlockReplay::Observe(uint32_t asked, uint32_t accepted, bool is_fixed, double chance,
                          Text& text) {
  TANDEM_CHECK(asked >= 1 && asked <= kMaxDraftTokens && accepted <= asked);
  if (text.asked > 0) Replay(accepted > 0, chance, text);
  text.asked = asked;
  text.accepted = accepted;
  text.is_fixed = is_fixed;
}

// The round that `text` holds, now that the token behind it is known.
void BlockReplay::Replay(bool next, double chance, Text& text) {
  const uint32_t asked = text.asked;
  const uint32_t accepted = text.accepted;
  for (uint32_t i = 0; i < accepted; ++i) {
    if (text.is_fixed && i + 1 < asked) Count(true, i + 1 < accepted, text);
    Step(true, text);
  }
  if (accepted == asked) {
    Step(Guess(next, chance, text), text);
    return;
  }
  // At the last position what follows a right token is not known. So wrong ones do not count there either.
  if (text.is_fixed && accepted + 1 < asked) Count(false, next, text);
  Step(false, text);
}

void BlockReplay::Count(bool right, bool next, const Text& text) {
  Between& between = between_[text.run][next ? 1 : 0];
  (right ? between.right : between.wrong) += 1;
}

bool BlockReplay::Guess(bool next, double chance, const Text& text) {
  Between& between = between_[text.run][next ? 1 : 0];
  between.owed +=
      (between.right + kPriorWeight * chance) / (between.right + between.wrong + kPriorWeight);
  const bool right = between.owed >= 0.5;
  if (right) between.owed -= 1;
  return right;
}

void BlockReplay::Step(bool right, Text& text) {
  if (replayed_ >= kMemory) Fade(kMemory / 2);
  replayed_ += 1;
  text.run = right ? std::min(text.run + 1, kMaxRun) : 0;
  for (uint32_t i = 0; i < kMaxDraftTokens; ++i) {
    uint8_t& block = text.block[i];
    if (block > i) {  // the target's own token behind a whole chain
      block = 0;
      continue;
    }
    tested_[i][block] += 1;
    if (right) {
      accepted_[i][block] += 1;
      ++block;
    } else {
      block = 0;
    }
  }
}

void BlockReplay::Fade(double tokens) {
  if (replayed_ <= tokens) return;
  const double share = tokens / replayed_;
  replayed_ = tokens;
  for (auto* counts : {&tested_, &accepted_}) {
    for (Positions& positions : *counts) {
      for (float& count : positions) count *= static_cast<float>(share);
    }
  }
  for (auto& run : between_) {
    for (Between& between : run) {
      between.right *= share;
      between.wrong *= share;
    }
  }
}

double BlockReplay::At(uint32_t position, uint32_t asked, double before) const {
  TANDEM_CHECK(position >= 1 && position <= asked && asked <= kMaxDraftTokens);
  const double tested = tested_[asked - 1][position - 1];
  const double accepted = accepted_[asked - 1][position - 1];
  return (accepted + kPriorWeight * before) / (tested + kPriorWeight);
}

}  // namespace tandem::orchestrator
