#include "common/speculation/sequence_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace tandem::speculation {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocabulary = 8;
constexpr uint32_t kContext = 32;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

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

using Change = std::function<void(internal::v1::SequenceOptions&)>;

struct Case {
  std::string field;
  std::string says;  // in the message: the value, the range
  Change spoil;
};

void ExpectRefused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    internal::v1::SequenceOptions options = Good();
    ASSERT_TRUE(std::holds_alternative<SequenceSettings>(Check(options)));
    c.spoil(options);
    const auto checked = Check(options);
    ASSERT_TRUE(std::holds_alternative<messages::Refusal>(checked)) << c.field << ", " << c.says;
    const messages::Refusal& refusal = std::get<messages::Refusal>(checked);
    EXPECT_EQ(refusal.status, internal::v1::STATUS_INVALID);
    EXPECT_EQ(refusal.problem.field(), c.field) << refusal.problem.message();
    EXPECT_THAT(refusal.problem.message(), HasSubstr(c.says)) << c.field;
  }
}

SequenceSettings Taken(const Change& change) {
  internal::v1::SequenceOptions options = Good();
  change(options);
  auto checked = Check(options);
  if (auto* refusal = std::get_if<messages::Refusal>(&checked)) {
    ADD_FAILURE() << refusal->problem.field() << ": " << refusal->problem.message();
    return {};
  }
  return std::get<SequenceSettings>(checked);
}

// The ranges themselves: tests/common/sampling/parameters_test.cc.
TEST(SequenceOptions, WhatSamplingRefusesIsNamedByItsField) {
  ExpectRefused({
      {"options.sampling.temperature", "100.5; it must be from 0 to 100",
       [](auto& options) { options.mutable_sampling()->set_temperature(100.5f); }},
      {"options.sampling.top_p", "nan; it must be above 0 and at most 1",
       [](auto& options) { options.mutable_sampling()->set_top_p(kNan); }},
      {"options.sampling.banned_token_ids[1]", "8; it must be below the vocabulary size, 8",
       [](auto& options) {
         options.mutable_sampling()->add_banned_token_ids(3);
         options.mutable_sampling()->add_banned_token_ids(8);
       }},
      {"options.sampling.min_tokens", "2, but only tokens that end the text may come",
       [](auto& options) {
         options.mutable_sampling()->add_allowed_token_ids(4);
         options.mutable_sampling()->set_min_tokens(2);
         options.add_stop_token_ids(4);
       }},
      // Beside `sampling` on the wire.
      {"options.stop_token_ids[1]", "8; it must be below the vocabulary size, 8",
       [](auto& options) {
         options.add_stop_token_ids(2);
         options.add_stop_token_ids(8);
       }},
  });
}

TEST(SequenceOptions, LeniencyComesWithItsRuleAndOnlyThen) {
  auto lenient = [](float leniency) {
    return [leniency](internal::v1::SequenceOptions& options) {
      options.set_rule(v1::RULE_LENIENT);
      options.set_leniency(leniency);
    };
  };
  const std::string range = "it must be above 0 and at most 1";
  ExpectRefused({
      {"options.leniency", "comes with RULE_LENIENT, and only then",
       [](auto& options) { options.set_leniency(0.5f); }},
      {"options.leniency", "comes with RULE_LENIENT, and only then",
       [](auto& options) { options.set_rule(v1::RULE_LENIENT); }},
      {"options.leniency", range, lenient(0)},
      {"options.leniency", range, lenient(-0.5f)},
      {"options.leniency", "1.5; " + range, lenient(1.5f)},
      {"options.leniency", "nan; " + range, lenient(kNan)},
  });
  for (float leniency : {0.001f, 0.5f, 1.0f}) {
    const SequenceSettings settings = Taken(lenient(leniency));
    EXPECT_EQ(settings.rule, acceptance::Rule::kLenient);
    EXPECT_EQ(settings.leniency, leniency);
  }
}

TEST(SequenceOptions, RulesAreKnownAndAtTemperatureZeroGreedyButForLenient) {
  using acceptance::Rule;
  const std::vector<std::pair<v1::Rule, Rule>> rules = {{v1::RULE_SPECULATIVE, Rule::kSpeculative},
                                                        {v1::RULE_BLOCK, Rule::kBlock},
                                                        {v1::RULE_COUPLED, Rule::kCoupled},
                                                        {v1::RULE_LENIENT, Rule::kLenient}};
  for (const auto& [sent, rule] : rules) {
    const auto with = [sent = sent](float temperature) {
      return [sent, temperature](internal::v1::SequenceOptions& options) {
        options.set_rule(sent);
        options.mutable_sampling()->set_temperature(temperature);
        if (sent == v1::RULE_LENIENT) options.set_leniency(0.5f);
      };
    };
    EXPECT_EQ(Taken(with(0.7f)).rule, rule);
    EXPECT_EQ(Taken(with(0)).rule, rule == Rule::kLenient ? rule : Rule::kGreedy);
  }
  EXPECT_EQ(Taken([](auto& options) {
              options.set_rule(v1::RULE_GREEDY);
              options.mutable_sampling()->set_temperature(0);
            }).rule,
            Rule::kGreedy);
  ExpectRefused({
      {"options.rule", "RULE_GREEDY needs temperature 0",
       [](auto& options) { options.set_rule(v1::RULE_GREEDY); }},
      {"options.rule", "RULE_UNSPECIFIED comes from a client only",
       [](auto& options) { options.clear_rule(); }},
      {"options.rule", "RULE_UNSPECIFIED comes from a client only",
       [](auto& options) {
         options.clear_rule();
         options.mutable_sampling()->set_temperature(0);
       }},
      {"options.rule", "rule 77 is not known",
       [](auto& options) { options.set_rule(static_cast<v1::Rule>(77)); }},
  });
}

TEST(SequenceOptions, LogprobsHaveAMostAndNoPrompt) {
  ExpectRefused({
      {"options.logprobs.top", "21 is outside 0 to 20",
       [](auto& options) { options.mutable_logprobs()->set_top(21); }},
      {"options.logprobs.prompt", "from a client only",
       [](auto& options) { options.mutable_logprobs()->set_prompt(true); }},
  });
  EXPECT_EQ(Taken([](auto&) {}).logprobs, std::nullopt);
  const SequenceSettings settings = Taken([](auto& options) {
    options.mutable_logprobs()->set_top(20);
    options.mutable_logprobs()->set_processed(true);
  });
  EXPECT_EQ(settings.logprobs, (sampling::LogprobOptions{20, true}));
  EXPECT_EQ(Taken([](auto& options) { options.mutable_logprobs(); }).logprobs,
            sampling::LogprobOptions());
}

TEST(SequenceOptions, TheRestHasItsRanges) {
  ExpectRefused({
      {"options.sample_index", "65536 is outside 0 to 65535",
       [](auto& options) { options.set_sample_index(65536); }},
      {"options.max_length", "0 is outside 1 to 32",
       [](auto& options) { options.set_max_length(0); }},
      {"options.max_length", "33 is outside 1 to 32, the context length",
       [](auto& options) { options.set_max_length(33); }},
      {"options.prompt_tokens", "33 is above options.max_length, 32",
       [](auto& options) { options.set_prompt_tokens(33); }},
      {"options.priority", "11 is outside 0 to 10",
       [](auto& options) { options.set_priority(11); }},
      {"options.cache_scope", "65 bytes; at most 64",
       [](auto& options) { options.set_cache_scope(std::string(65, 'a')); }},
  });
}

}  // namespace
}  // namespace tandem::speculation
