#include "target_service/engine/judging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "common/acceptance/tree.h"

namespace tandem::target_service {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A Step after three tokens with one draft token, judged from two rows of logits.
absl::StatusOr<Judgement> JudgeTwo(const std::vector<float>& logits, double temperature) {
  speculation::SequenceSettings settings;
  settings.sampling.temperature = temperature;
  settings.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kSpeculative;
  return JudgeRows(acceptance::Judge, settings, {.tokens = {1}}, 3, nullptr, {logits.data(), 2, 3},
                   0, 3);
}

TEST(JudgeRows, LogitsThatAreNoNumbersAreTheModelsFault) {
  for (double temperature : {0.0, 1.0}) {
    for (float bad : {kNan, kInfinity}) {
      const auto entries = JudgeTwo({0, 5, 1, 7, bad, 3}, temperature);
      EXPECT_EQ(entries.status().code(), absl::StatusCode::kInternal);
      EXPECT_THAT(entries.status().message(), HasSubstr("after 4 tokens hold a NaN"));
    }
    const auto entries = JudgeTwo({0, 5, -kInfinity, 7, 2, 3}, temperature);
    EXPECT_TRUE(entries.ok()) << "minus infinity is how a token is ruled out";
  }
}

// Draft tokens that follow any node before them; siblings are different tokens, where there are
// enough.
speculation::CandidateTree RandomTree(std::mt19937& random, uint32_t vocabulary) {
  speculation::CandidateTree tree;
  for (uint32_t i = 1 + random() % 9; i > 0; --i) {
    tree.tokens.push_back(random() % vocabulary);
    tree.parents.push_back(random() % tree.tokens.size());
    if (tree.EqualSibling() == tree.size()) continue;
    tree.tokens.pop_back();
    tree.parents.pop_back();
  }
  return tree;
}

// The history of a node is the committed tokens and the draft tokens above it, whichever they are
// and wherever they stand in the block. Penalties are strong and logits near each other, so that a
// token too many or too few in it shows.
TEST(JudgeRows, EachNodeOfATreeIsJudgedByItsOwnPath) {
  constexpr uint32_t kVocabulary = 6;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    speculation::SequenceSettings settings;
    settings.rule = seed % 2 == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kCoupled;
    sampling::SamplingParameters& parameters = settings.sampling;
    parameters.temperature = seed % 2 == 0 ? 0 : 0.7;
    parameters.repetition_penalty = 3;
    parameters.presence_penalty = 1.5;
    parameters.frequency_penalty = 2;
    parameters.min_tokens = random() % 8;
    parameters.stop_token_ids = {static_cast<uint32_t>(random() % kVocabulary)};
    settings.logprobs = sampling::LogprobOptions{kVocabulary, /*processed=*/true};
    settings.seed = seed;
    const uint32_t committed = 1 + random() % 6;
    settings.prompt_tokens = random() % (committed + 1);
    sampling::TokenHistory history(settings.prompt_tokens);
    for (uint32_t i = 0; i < committed; ++i) history.Append(random() % kVocabulary);
    const speculation::CandidateTree tree = RandomTree(random, kVocabulary);
    std::vector<float> logits((tree.size() + 1) * kVocabulary);
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 500 - 1;
    const auto row = [&](size_t node, int rows) {
      return model::Logits{logits.data() + node * kVocabulary, rows, kVocabulary};
    };
    const std::vector<uint32_t> before(history.tokens().begin(), history.tokens().end());
    const auto judged =
        JudgeRows(acceptance::Judge, settings, tree, committed, &history,
                  row(0, static_cast<int>(tree.size()) + 1), /*first_row=*/0, kVocabulary);
    ASSERT_TRUE(judged.ok()) << judged.status();
    EXPECT_EQ(before, std::vector<uint32_t>(history.tokens().begin(), history.tokens().end()));

    std::vector<uint32_t> draws;
    for (uint32_t node = 0; node <= tree.size(); ++node) {
      std::vector<uint32_t> path;
      for (uint32_t at = node; at > 0; at = tree.parents[at - 1]) {
        path.insert(path.begin(), tree.tokens[at - 1]);
      }
      sampling::TokenHistory own(settings.prompt_tokens);
      own.Append(before);
      own.Append(path);
      const auto alone =
          JudgeRows(acceptance::Judge, settings, {}, static_cast<uint32_t>(own.size()), &own,
                    row(node, 1), /*first_row=*/0, kVocabulary);
      ASSERT_TRUE(alone.ok()) << alone.status();
      draws.push_back(*alone->entries[0].next_token);
      ASSERT_EQ(judged->logprobs[node].top.size(), alone->logprobs[0].top.size()) << node;
      for (size_t i = 0; i < alone->logprobs[0].top.size(); ++i) {
        EXPECT_EQ(judged->logprobs[node].top[i].token, alone->logprobs[0].top[i].token) << node;
        EXPECT_EQ(judged->logprobs[node].top[i].logprob, alone->logprobs[0].top[i].logprob) << node;
      }
    }
    const auto expected = acceptance::JudgeTree(draws, tree.tokens, tree.parents);
    ASSERT_EQ(judged->entries.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(judged->entries[i].accept_probability, expected[i].accept_probability);
      EXPECT_EQ(judged->entries[i].next_token, expected[i].next_token);
    }
  }
}

}  // namespace
}  // namespace tandem::target_service
