#include "orchestrator/draft/length/block_replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "orchestrator/draft/length/acceptance_estimate.h"

namespace tandem::orchestrator::block_replay_test {
namespace {

// Of each token of a text, whether the draft is right. Easy and hard passages come in turn, by chance.
struct Passages {
  double easy, hard;              // chance that the draft is right
  double leave_easy, leave_hard;  // a token
};

std::vector<bool> Text(const Passages& passages, int tokens, std::vector<bool>* hard = nullptr) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): a fixed seed
  std::uniform_real_distribution<double> uniform;
  std::vector<bool> right;
  bool easy = true;
  for (int i = 0; i < tokens; ++i) {
    if (hard != nullptr) hard->push_back(!easy);
    right.push_back(uniform(random) < (easy ? passages.easy : passages.hard));
    if (uniform(random) < (easy ? passages.leave_easy : passages.leave_hard)) easy = !easy;
  }
  return right;
}

// Decodes the text. `asked`: of each round; 0: a plain one. `observe` is told what each asked for, and what stood.
// Returns the tokens a round.
double Decode(const std::vector<bool>& text, const std::function<uint32_t(int round)>& asked,
              const std::function<void(uint32_t asked, uint32_t accepted)>& observe) {
  size_t at = 0;
  int round = 0;
  while (at + kMaxDraftTokens < text.size()) {
    const uint32_t block = asked(round++);
    uint32_t accepted = 0;
    while (accepted < block && text[at + accepted]) ++accepted;
    observe(block, accepted);
    at += accepted + 1;
  }
  return static_cast<double>(at) / round;
}

double TokensOf(const std::vector<bool>& text, uint32_t asked) {
  return Decode(
      text, [asked](int) { return asked; }, [](uint32_t, uint32_t) {});
}

AcceptanceEstimate Estimate(const std::vector<bool>& text,
                            const std::function<uint32_t(int round)>& asked) {
  AcceptanceEstimate estimate;
  BlockReplay::Text state;
  Decode(text, asked, [&](uint32_t block, uint32_t accepted) {
    if (block == 0) {
      BlockReplay::Interrupt(state);
    } else {
      estimate.Observe(block, block, accepted, state);
    }
  });
  return estimate;
}

// The largest error of the tokens a round, relative, over lengths 1 to 12.
double WorstError(const AcceptanceEstimate& estimate, const std::vector<bool>& text) {
  double worst = 0;
  for (uint32_t length : {1, 2, 3, 4, 5, 6, 8, 12}) {
    worst = std::max(worst, std::abs(estimate.Tokens(length) / TokensOf(text, length) - 1));
  }
  return worst;
}

constexpr Passages kPassages[] = {
    {0.9, 0.35, 0.06, 0.06}, {0.9, 0.35, 0.02, 0.06}, {0.97, 0.3, 0.1, 0.1}, {0.7, 0.7, 0.5, 0.5}};
// As many as the estimate remembers: what it says is of the text's end.
constexpr int kTokens = 5000;

double ByPosition(const AcceptanceEstimate& estimate, uint32_t asked) {
  double tokens = 1;
  double all = 1;
  for (uint32_t i = 1; i <= asked; ++i) tokens += all *= estimate.At(i);
  return tokens;
}

TEST(BlockReplay, KnowsBlocksOfOtherLengths) {
  for (const Passages& passages : kPassages) {
    const std::vector<bool> text = Text(passages, kTokens);
    for (uint32_t asked : {2, 3, 4, 6, 8}) {
      const AcceptanceEstimate estimate = Estimate(text, [asked](int) { return asked; });
      EXPECT_LT(WorstError(estimate, text), 0.03) << passages.leave_easy << ", asked for " << asked;
    }
  }
}

TEST(BlockReplay, CountsByPositionDoNotKnowThem) {
  const std::vector<bool> text = Text(kPassages[0], kTokens);
  const AcceptanceEstimate estimate = Estimate(text, [](int) { return 4; });
  EXPECT_GT(std::abs(ByPosition(estimate, 2) / TokensOf(text, 2) - 1), 0.03);
  EXPECT_GT(std::abs(ByPosition(estimate, 12) / TokensOf(text, 12) - 1), 0.06);
}

TEST(BlockReplay, LengthsMayChange) {
  const std::vector<bool> text = Text(kPassages[0], kTokens);
  EXPECT_LT(WorstError(Estimate(text, [](int round) { return 3 + round % 2; }), text), 0.03);
}

// Chains end behind a candidate of a hard passage, so most blocks begin in one. What the draft is asked for in
// between says little of blocks that come one after the other.
TEST(BlockReplay, ChainsThatEndByConfidenceTellOfOthers) {
  constexpr Passages kTwo{0.95, 0.3, 0.05, 0.05};
  std::vector<bool> hard;
  const std::vector<bool> text = Text(kTwo, 2 * kTokens, &hard);
  AcceptanceEstimate told, not_told;
  BlockReplay::Text told_state, not_told_state;
  size_t at = 0;
  int round = 0;
  while (at + kMaxDraftTokens < text.size()) {
    const bool confident = round++ % 4 < 2;
    uint32_t came = 0;
    while (came < (confident ? 8u : 3u) && (!confident || came == 0 || !hard[at + came - 1]))
      ++came;
    uint32_t accepted = 0;
    while (accepted < came && text[at + accepted]) ++accepted;
    if (confident) {
      told.ObserveConfident(came, accepted, told_state);
      BlockReplay::Interrupt(not_told_state);
    } else {
      told.Observe(3, 3, accepted, told_state);
      not_told.Observe(3, 3, accepted, not_told_state);
    }
    at += accepted + 1;
  }
  EXPECT_LT(WorstError(told, text), 0.04);
  EXPECT_GT(WorstError(not_told, text), 0.06);
}

// Plain rounds come after every fourth round: no block of twelve is seen whole that is not rejected.
TEST(BlockReplay, BlocksThatAreInterruptedCountAsFarAsTheyCame) {
  const std::vector<bool> text = Text(kPassages[3], kTokens);
  const auto asked = [](int round) { return round % 5 == 4 ? 0 : 2; };
  EXPECT_LT(WorstError(Estimate(text, asked), text), 0.05);
}

}  // namespace
}  // namespace tandem::orchestrator::block_replay_test
