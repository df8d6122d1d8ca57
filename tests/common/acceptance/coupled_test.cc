#include "common/acceptance/coupled.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/acceptance/round_world.h"

namespace tandem::acceptance {
namespace {

using random::RoundKey;
using sampling::Distribution;

constexpr uint64_t kSeed = 41;
constexpr uint32_t kSample = 3;
constexpr uint32_t kPrompt = 2;
constexpr size_t kLength = 24;

TEST(CoupledTest, AcceptsTheTargetsOwnDraw) {
  const Distribution p{{0, 1, 2}, {0.5, 0.3, 0.2}};
  const std::vector<Distribution> ps = {p, p, p};
  for (uint32_t committed = 0; committed < 200; ++committed) {
    const RoundKey key{kSeed, kSample, committed};
    std::vector<uint32_t> draws;
    for (uint32_t i = 0; i < 3; ++i) {
      draws.push_back(sampling::DrawRace(p, kSeed, kSample, committed + i));
    }
    const std::vector<uint32_t> candidates = {draws[0], (draws[1] + 1) % 3};
    const std::vector<Entry> entries = JudgeCoupled(ps, candidates, key);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[1].accept_probability, 1);
    EXPECT_FALSE(entries[0].next_token.has_value());
    EXPECT_EQ(entries[2].accept_probability, 0);
    EXPECT_EQ(entries[1].next_token, draws[1]);
    EXPECT_EQ(entries[2].next_token, draws[2]);
    EXPECT_TRUE(ValidateEntries(Rule::kCoupled, entries, 2, 3).ok());
  }
}

// Plain decoding's text.
Tokens Plain(const Setting& setting) {
  World world(setting);
  Tokens text;
  while (text.size() < kLength) {
    text.push_back(sampling::DrawRace(world.P(text, {}), kSeed, kSample,
                                      kPrompt + static_cast<uint32_t>(text.size())));
  }
  return text;
}

enum class Knows { kNothing, kTheNoise, kTheNoiseAndP, kAndAvoidsIt, kDead };

// Rounds with a draft; `accepted`: draft tokens that stood.
Tokens WithDraft(const Setting& setting, Knows knows, int block, int& accepted) {
  World world(setting);
  Tokens text;
  for (uint32_t round = 0; text.size() < kLength; ++round) {
    const RoundKey key{kSeed, kSample, kPrompt + static_cast<uint32_t>(text.size())};
    Tokens context = text, candidates;
    std::vector<Distribution> ps = {world.P(context, {})};
    for (uint32_t i = 0; i < static_cast<uint32_t>(block) && knows != Knows::kDead; ++i) {
      uint32_t candidate = (round + i) % setting.vocabulary;
      const uint32_t place = key.committed + i;
      if (knows == Knows::kTheNoise) {
        const sampling::SparseDistribution sparse = world.Q(context);
        Distribution q;
        for (uint32_t id = 0; id < setting.vocabulary; ++id) {
          if (sparse(id) == 0) continue;
          q.ids.push_back(id);
          q.probabilities.push_back(sparse(id));
        }
        candidate = sampling::DrawRace(q, kSeed, kSample, place);
      }
      if (knows == Knows::kTheNoiseAndP || knows == Knows::kAndAvoidsIt) {
        candidate = sampling::DrawRace(ps.back(), kSeed, kSample, place);
        if (knows == Knows::kAndAvoidsIt) candidate = (candidate + 1) % setting.vocabulary;
      }
      candidates.push_back(candidate);
      context.push_back(candidate);
      ps.push_back(world.P(context, {}));
    }
    const std::vector<Entry> entries = Judge({Rule::kCoupled, key, ps, candidates, {}});
    const Decision decision =
        Decide(Rule::kCoupled, entries, AcceptUniforms(key, static_cast<int>(candidates.size())));
    accepted += static_cast<int>(decision.accepted);
    text.insert(text.end(), candidates.begin(), candidates.begin() + decision.accepted);
    text.push_back(decision.next_token);
  }
  text.resize(kLength);
  return text;
}

TEST(CoupledTest, TheTextIsPlainDecodingsWhateverTheDraft) {
  for (const NamedOptions& set : OptionSets(false)) {
    SCOPED_TRACE(set.name);
    const Setting setting{.rule = Rule::kCoupled, .options = set.options};
    const Tokens plain = Plain(setting);
    for (int block : {1, 3, 6}) {
      for (Knows knows : {Knows::kNothing, Knows::kTheNoise, Knows::kTheNoiseAndP,
                          Knows::kAndAvoidsIt, Knows::kDead}) {
        int accepted = 0;
        EXPECT_EQ(WithDraft(setting, knows, block, accepted), plain);
        if (knows == Knows::kTheNoiseAndP) {
          EXPECT_GE(accepted, static_cast<int>(kLength) / (block + 1) * block);
        } else if (knows == Knows::kTheNoise) {
          EXPECT_GT(accepted, 0);
        } else if (knows != Knows::kNothing) {
          EXPECT_EQ(accepted, 0);
        }
      }
    }
  }
}

// The share of equal draws, which the header's formula says; and more than the least it promises.
TEST(CoupledTest, AgreesAsOftenAsTheFormulaSays) {
  const Distribution p{{0, 1, 2, 3}, {0.4, 0.3, 0.2, 0.1}};
  const Distribution q{{0, 1, 2, 3}, {0.2, 0.5, 0.05, 0.25}};
  double expected = 0, distance = 0;
  for (size_t x = 0; x < 4; ++x) {
    double sum = 0;
    for (size_t y = 0; y < 4; ++y) {
      sum += std::max(p.probabilities[y] / p.probabilities[x],
                      q.probabilities[y] / q.probabilities[x]);
    }
    expected += 1 / sum;
    distance += std::abs(p.probabilities[x] - q.probabilities[x]) / 2;
  }
  constexpr int kDraws = 200'000;
  int same = 0;
  for (uint32_t place = 0; place < kDraws; ++place) {
    same += sampling::DrawRace(p, 7, 0, place) == sampling::DrawRace(q, 7, 0, place);
  }
  const double share = static_cast<double>(same) / kDraws;
  EXPECT_NEAR(share, expected, 6 * std::sqrt(expected * (1 - expected) / kDraws));
  EXPECT_GT(expected, (1 - distance) / (1 + distance));
}

}  // namespace
}  // namespace tandem::acceptance
