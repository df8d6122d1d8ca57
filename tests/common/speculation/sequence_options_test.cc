#include "common/speculation/sequence_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::speculation {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocabulary = 8;
constexpr uint32_t kContext = 32;

internal::v1::SequenceOptions Good() {
  internal::v1::SequenceOptions options;
  options.mutable_sampling()->set_temperature(1);
  options.set_rule(v1::RULE_SPECULATIVE);
  options.set_prompt_tokens(3);
  options.set_max_length(kContext);
  return options;
}

std::variant<SequenceSettings, messages::Refusal> Check(
    const internal::v1::SequenceOptions& options) {
  return CheckSequenceOptions(options, kContext, kVocabulary);
}

internal::v1::SequenceOptions With(const std::string& text) {
  internal::v1::SequenceOptions options = Good();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &options)) << text;
  return options;
}

struct Case {
  std::string field;
  std::string says;  // in the message: the value, the range
  std::string options;
};

void ExpectRefused(const std::vector<Case>& cases) {
  ASSERT_TRUE(std::holds_alternative<SequenceSettings>(Check(Good())));
  for (const Case& c : cases) {
    const auto checked = Check(With(c.options));
    ASSERT_TRUE(std::holds_alternative<messages::Refusal>(checked)) << c.field << ", " << c.says;
    const messages::Refusal& refusal = std::get<messages::Refusal>(checked);
    EXPECT_EQ(refusal.status, internal::v1::STATUS_INVALID);
    EXPECT_EQ(refusal.problem.field(), c.field) << refusal.problem.message();
    EXPECT_THAT(refusal.problem.message(), HasSubstr(c.says)) << c.field;
  }
}

SequenceSettings Taken(const std::string& text) {
  auto checked = Check(With(text));
  if (auto* refusal = std::get_if<messages::Refusal>(&checked)) {
    ADD_FAILURE() << refusal->problem.field() << ": " << refusal->problem.message();
    return {};
  }
  return std::get<SequenceSettings>(checked);
}

// The ranges themselves: tests/common/messages/request_options_test.cc.
TEST(SequenceOptions, WhatIsOutOfRangeIsNamedByItsField) {
  ExpectRefused({
      {"options.sampling.temperature", "100.5; it must be 0 to 100",
       "sampling { temperature: 100.5 }"},
      {"options.sampling.banned_token_ids[1]", "8; it must be below the vocabulary size, 8",
       "sampling { banned_token_ids: [3, 8] }"},
      {"options.sampling.min_tokens", "2, but only tokens that end the text may come",
       "sampling { allowed_token_ids: 4 min_tokens: 2 } stop_token_ids: 4"},
      // Beside `sampling` on the wire.
      {"options.stop_token_ids[1]", "8; it must be below the vocabulary size, 8",
       "stop_token_ids: [2, 8]"},
      {"options.leniency", "is 0; it must be above 0, to 1", "rule: RULE_LENIENT leniency: 0"},
      {"options.logprobs.top", "21; it must be 0 to 20", "logprobs { top: 21 }"},
      {"options.max_nodes", "65; it must be 0 to 64", "rule: RULE_COUPLED max_nodes: 65"},
      {"options.sample_index", "65536; it must be 0 to 65535", "sample_index: 65536"},
      {"options.max_length", "0 is outside 1 to 32", "max_length: 0"},
      {"options.max_length", "33 is outside 1 to 32, the context length", "max_length: 33"},
      {"options.prompt_tokens", "33 is above options.max_length, 32", "prompt_tokens: 33"},
      {"options.priority", "11; it must be 0 to 10", "priority: 11"},
      {"options.cache_scope", "65 bytes; at most 64",
       "cache_scope: '" + std::string(65, 'a') + "'"},
  });
}

TEST(SequenceOptions, WhatDoesNotGoTogether) {
  const std::string only_with = "comes with RULE_LENIENT, and only then";
  const std::string from_a_client = "RULE_UNSPECIFIED comes from a client only";
  ExpectRefused({
      {"options.leniency", only_with, "leniency: 0.5"},
      {"options.leniency", only_with, "rule: RULE_LENIENT"},
      {"options.rule", "RULE_GREEDY needs temperature 0", "rule: RULE_GREEDY"},
      {"options.rule", from_a_client, "rule: RULE_UNSPECIFIED"},
      {"options.rule", from_a_client, "rule: RULE_UNSPECIFIED sampling { temperature: 0 }"},
      {"options.logprobs.prompt", "from a client only", "logprobs { prompt: true }"},
      {"options.max_nodes", "rule speculative has no trees", "max_nodes: 8"},
  });
  internal::v1::SequenceOptions unknown = Good();
  unknown.set_rule(static_cast<v1::Rule>(77));
  EXPECT_EQ(std::get<messages::Refusal>(Check(unknown)).problem.message(), "rule 77 is not known");
}

TEST(SequenceOptions, AtTemperatureZeroEveryRuleButLenientIsGreedy) {
  using acceptance::Rule;
  const std::pair<std::string, Rule> rules[] = {{"RULE_SPECULATIVE", Rule::kSpeculative},
                                                {"RULE_BLOCK", Rule::kBlock},
                                                {"RULE_COUPLED", Rule::kCoupled},
                                                {"RULE_LENIENT leniency: 0.5", Rule::kLenient}};
  for (const auto& [sent, rule] : rules) {
    EXPECT_EQ(Taken("rule: " + sent).rule, rule);
    EXPECT_EQ(Taken("sampling { temperature: 0 } rule: " + sent).rule,
              rule == Rule::kLenient ? rule : Rule::kGreedy);
  }
  EXPECT_EQ(Taken("sampling { temperature: 0 } rule: RULE_GREEDY").rule, Rule::kGreedy);
}

TEST(SequenceOptions, LogprobsAreThereWhereTheyAreAskedFor) {
  EXPECT_EQ(Taken("").logprobs, std::nullopt);
  EXPECT_EQ(Taken("logprobs {}").logprobs, sampling::LogprobOptions());
  EXPECT_EQ(Taken("logprobs { top: 20 processed: true }").logprobs,
            (sampling::LogprobOptions{20, true}));
}

}  // namespace
}  // namespace tandem::speculation
