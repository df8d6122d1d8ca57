#include "target_service/engine/judging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace tandem::target_service {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A Step after three tokens with one candidate, judged from two rows of logits.
absl::StatusOr<Judgement> JudgeTwo(const std::vector<float>& logits, double temperature) {
  speculation::SequenceSettings settings;
  settings.sampling.temperature = temperature;
  settings.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kSpeculative;
  return JudgeRows(acceptance::Judge, settings, {.tokens = {1}}, 3, nullptr, {logits.data(), 2, 3},
                   0, 3);
}

TEST(JudgeRows, GreedyAcceptsTheLargestLogit) {
  const auto judgement = JudgeTwo({0, 5, 1, 7, 2, 3}, 0);
  ASSERT_TRUE(judgement.ok()) << judgement.status();
  ASSERT_EQ(judgement->entries.size(), 2u);
  EXPECT_EQ(judgement->entries[1].accept_probability, 1);
  EXPECT_EQ(judgement->entries[1].next_token, 0u);
  EXPECT_TRUE(judgement->logprobs.empty()) << "nobody asked for them";
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

}  // namespace
}  // namespace tandem::target_service
