#include "common/sampling/logits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::sampling::logits_test {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TokenHistory History(std::vector<uint32_t> prompt, std::vector<uint32_t> output) {
  TokenHistory history(static_cast<uint32_t>(prompt.size()));
  history.Append(prompt);
  history.Append(output);
  return history;
}

// The header's words, token by token, in long double.
std::vector<long double> Reference(const std::vector<float>& logits, uint32_t vocabulary_size,
                                   const SamplingParameters& parameters,
                                   const TokenHistory& history) {
  std::vector<long double> processed;
  const auto has = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::count(ids.begin(), ids.end(), id) > 0;
  };
  const auto tokens = history.tokens();
  for (uint32_t id = 0; id < std::min<size_t>(logits.size(), vocabulary_size); ++id) {
    long double x = logits[id];
    for (const TokenBias& entry : parameters.bias) {
      if (entry.token == id) x += entry.bias;
    }
    if (has(parameters.banned, id)) x = -kInfinity;
    if (!parameters.allowed.empty() && !has(parameters.allowed, id)) x = -kInfinity;
    if (history.output_tokens() < parameters.min_tokens && has(parameters.stop_token_ids, id)) {
      x = -kInfinity;
    }
    const size_t prompt = std::min<size_t>(history.prompt_tokens(), tokens.size());
    const auto all = std::count(tokens.begin(), tokens.end(), id);
    const auto output = std::count(tokens.begin() + prompt, tokens.end(), id);
    if (all > 0) x = x > 0 ? x / parameters.repetition_penalty : x * parameters.repetition_penalty;
    if (output > 0) x -= parameters.presence_penalty;
    x -= parameters.frequency_penalty * output;
    processed.push_back(x);
  }
  return processed;
}

TEST(ProcessLogitsTest, OneByOne) {
  const std::vector<float> logits = {1, -1, 2, -2, 0.5f, 100};  // the last one is padding
  const auto process = [&](const SamplingParameters& parameters, const TokenHistory& history) {
    return ProcessLogits(logits, 5, parameters, history);
  };
  const TokenHistory history = History({0, 1}, {2, 2, 3});
  EXPECT_THAT(process({}, history), ElementsAre(1, -1, 2, -2, 0.5f));
  EXPECT_THAT(process({.bias = {{4, -3}, {0, 2}}}, history), ElementsAre(3, -1, 2, -2, -2.5f));
  EXPECT_THAT(process({.banned = {1, 1, 4}}, history),
              ElementsAre(1, -kInfinity, 2, -2, -kInfinity));
  EXPECT_THAT(process({.allowed = {2, 0}}, history),
              ElementsAre(1, -kInfinity, 2, -kInfinity, -kInfinity));
  // Banned and allowed: banned.
  EXPECT_THAT(process({.banned = {2}, .allowed = {2, 0}}, history),
              ElementsAre(1, -kInfinity, -kInfinity, -kInfinity, -kInfinity));
  EXPECT_THAT(process({.repetition_penalty = 2}, history), ElementsAre(0.5f, -2, 1, -4, 0.5f));
  EXPECT_THAT(process({.presence_penalty = 1}, history), ElementsAre(1, -1, 1, -3, 0.5f));
  EXPECT_THAT(process({.frequency_penalty = -0.5}, history), ElementsAre(1, -1, 3, -1.5f, 0.5f));
  EXPECT_THAT(process({.min_tokens = 4, .stop_token_ids = {2}}, history),
              ElementsAre(1, -1, -kInfinity, -2, 0.5f));
  EXPECT_THAT(process({.min_tokens = 3, .stop_token_ids = {2}}, history),
              ElementsAre(1, -1, 2, -2, 0.5f));
}

// The penalty comes after the bias: its sign is that of the biased logit.
TEST(ProcessLogitsTest, ThePenaltySeesTheBiasedLogit) {
  const std::vector<float> logits = {1, -1};
  const SamplingParameters parameters{.repetition_penalty = 2, .bias = {{0, -3}, {1, 3}}};
  EXPECT_THAT(ProcessLogits(logits, 2, parameters, History({0, 1}, {})), ElementsAre(-4, 1));
}

TEST(ProcessLogitsTest, PromptTokensAreNotOutput) {
  const std::vector<float> logits = {1, 1};
  const SamplingParameters parameters{.presence_penalty = 1, .frequency_penalty = 1};
  EXPECT_THAT(ProcessLogits(logits, 2, parameters, History({0, 1, 1}, {0, 0})), ElementsAre(-2, 1));
}

TEST(ProcessLogitsTest, EqualsTheReferenceInLongDouble) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 5);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(generator() % bound); };
  for (int round = 0; round < 2000; ++round) {
    const uint32_t vocabulary = 2 + below(30);
    std::vector<float> logits(vocabulary + below(3));
    for (float& logit : logits) logit = below(20) == 0 ? -kInfinity : normal(generator);
    SamplingParameters parameters;
    if (below(2) == 0) parameters.repetition_penalty = 0.5 + below(8) / 7.0;
    if (below(2) == 0) parameters.presence_penalty = below(41) / 10.0 - 2;
    if (below(2) == 0) parameters.frequency_penalty = below(41) / 10.0 - 2;
    for (uint32_t id = 0; id < vocabulary + 2; ++id) {  // some beyond the vocabulary: ignored
      if (below(4) == 0) parameters.bias.push_back({id, below(2001) / 10.0 - 100});
      if (below(8) == 0) parameters.banned.push_back(id);
      if (below(8) == 0) parameters.stop_token_ids.push_back(id);
      if (round % 3 == 0 && below(2) == 0) parameters.allowed.push_back(id);
    }
    parameters.min_tokens = below(6);
    TokenHistory history(below(5));
    for (uint32_t i = below(12); i > 0; --i) history.Append(below(vocabulary + 3));
    const std::vector<float> processed = ProcessLogits(logits, vocabulary, parameters, history);
    const std::vector<long double> reference = Reference(logits, vocabulary, parameters, history);
    ASSERT_EQ(processed.size(), reference.size());
    for (size_t id = 0; id < processed.size(); ++id) {
      if (std::isinf(reference[id])) {
        EXPECT_EQ(processed[id], -kInfinity);
        continue;
      }
      // Half a float's last bit, and what doubles lose of terms up to 500.
      EXPECT_LE(std::abs(processed[id] - reference[id]),
                std::abs(reference[id]) * 0x1p-24L + 1e-12L)
          << round << " " << id;
    }
    if (!ChangesLogits(parameters, history)) {
      logits.resize(vocabulary);
      EXPECT_EQ(processed, logits);
    }
  }
}

// Twice rounded, this one would come out one bit off.
TEST(ProcessLogitsTest, RoundsOnce) {
  const float logit = 1 + 0x1p-23f;
  const double bias = 0x1p-25 + 0x1p-40, penalty = -(0x1p-25 + 0x1p-40);
  const std::vector<float> processed = ProcessLogits(
      {logit}, 1, {.presence_penalty = penalty, .bias = {{0, bias}}}, History({}, {0}));
  EXPECT_EQ(processed[0], static_cast<float>(double{logit} + bias - penalty));
  EXPECT_NE(processed[0], static_cast<float>(static_cast<float>(double{logit} + bias) - penalty));
}

TEST(ProcessLogitsTest, NoParameterMakesAFiniteLogitInfinite) {
  const float max = std::numeric_limits<float>::max();
  const TokenHistory history = History({0, 1, 2, 3}, {});
  const std::vector<float> logits = {5, -5, max, -max};
  EXPECT_THAT(ProcessLogits(logits, 4, {.repetition_penalty = 1e-320}, history),
              ElementsAre(max, ::testing::FloatEq(0), max, ::testing::_));
  EXPECT_THAT(ProcessLogits(logits, 4, {.repetition_penalty = 10}, history),
              ElementsAre(0.5f, -50, max / 10, -max));
  EXPECT_FALSE(MakeDistribution(logits, 4, {.repetition_penalty = 1e-320}, history).ids.empty());
}

TEST(ProcessLogitsTest, WhatIsNotFiniteStaysAsItIs) {
  const std::vector<float> logits = {kNan, kInfinity, -kInfinity, 1};
  const SamplingParameters parameters{
      .repetition_penalty = 2, .presence_penalty = 2, .bias = {{0, 1}, {1, -100}, {2, 100}}};
  const std::vector<float> processed =
      ProcessLogits(logits, 4, parameters, History({}, {0, 1, 2, 3}));
  EXPECT_TRUE(std::isnan(processed[0]));
  EXPECT_THAT(std::vector<float>(processed.begin() + 1, processed.end()),
              ElementsAre(kInfinity, -kInfinity, -1.5f));
  EXPECT_TRUE(MakeDistribution(logits, 4, parameters, History({}, {0})).ids.empty());
}

TEST(ChangesLogitsTest, OnlyWhereSomethingMay) {
  const TokenHistory none(3), three = History({1}, {2, 2, 3});
  EXPECT_FALSE(ChangesLogits({}, three));
  EXPECT_FALSE(ChangesLogits({.temperature = 0, .top_k = 3, .top_p = 0.5, .min_p = 0.1}, three));
  EXPECT_TRUE(ChangesLogits({.bias = {{1, 0}}}, none));
  EXPECT_TRUE(ChangesLogits({.banned = {1}}, none));
  EXPECT_TRUE(ChangesLogits({.allowed = {1}}, none));
  EXPECT_FALSE(ChangesLogits({.presence_penalty = 1}, none));
  EXPECT_TRUE(ChangesLogits({.presence_penalty = 1}, three));
  const SamplingParameters minimum{.min_tokens = 3, .stop_token_ids = {7}};
  EXPECT_TRUE(ChangesLogits(minimum, none));
  EXPECT_FALSE(ChangesLogits(minimum, three));
}

// All options in one row: what each takes away is what the next one sees.
TEST(DistributionOfOptionsTest, OptionsInTheirOrder) {
  // After bias, ban and penalties: {2, 1.5, 1, -inf, 0.5, -0.5}.
  const std::vector<float> logits = {0, 1.5f, 2, 9, 0.5f, -0.5f};
  SamplingParameters parameters{
      .temperature = 0.5, .repetition_penalty = 2, .bias = {{0, 2}}, .banned = {3}};
  const TokenHistory history = History({2}, {});
  const auto weight = [](double logit) { return std::exp((logit - 2) / 0.5); };
  const Distribution all = MakeDistribution(logits, 6, parameters, history);
  EXPECT_THAT(all.ids, ElementsAre(0, 1, 2, 4, 5));
  parameters.top_k = 4;
  EXPECT_THAT(MakeDistribution(logits, 6, parameters, history).ids, ElementsAre(0, 1, 2, 4));
  parameters.top_p = 0.9;  // {1, 0.37, 0.14, 0.05}: three reach it
  EXPECT_THAT(MakeDistribution(logits, 6, parameters, history).ids, ElementsAre(0, 1, 2));
  parameters.min_p = weight(1.5) * 0.999999;
  const Distribution p = MakeDistribution(logits, 6, parameters, history);
  EXPECT_THAT(p.ids, ElementsAre(0, 1));
  EXPECT_NEAR(p.probabilities[0], 1 / (1 + weight(1.5)), 1e-15);
  parameters.temperature = 0;
  EXPECT_THAT(MakeDistribution(logits, 6, parameters, history).ids, ElementsAre(0));
  parameters.banned = {3, 0};
  EXPECT_THAT(MakeDistribution(logits, 6, parameters, history).ids, ElementsAre(1));
}

}  // namespace
}  // namespace tandem::sampling::logits_test
