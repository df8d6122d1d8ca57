// What one side sends of a sequence is what the other side takes, field by field.
#include "common/speculation/sequence_settings.h"

#include <variant>

#include "common/speculation/sequence_options.h"
#include "gtest/gtest.h"

namespace tandem::speculation::sequence_settings_test {
namespace {

SequenceSettings Sent() {
  SequenceSettings settings;
  settings.sampling.temperature = 0.5;
  settings.sampling.top_k = 5;
  settings.sampling.top_p = 0.75;
  settings.sampling.min_p = 0.125;
  settings.sampling.repetition_penalty = 1.5;
  settings.sampling.presence_penalty = -0.25;
  settings.sampling.frequency_penalty = 0.75;
  settings.sampling.bias = {{1, 2.5}, {3, -100}};
  settings.sampling.banned = {7};
  settings.sampling.allowed = {1, 2, 3, 7};
  settings.sampling.min_tokens = 4;
  settings.sampling.stop_token_ids = {1, 2};
  settings.rule = acceptance::Rule::kLenient;
  settings.leniency = 0.25;
  settings.seed = 77;
  settings.sample_index = 3;
  settings.prompt_tokens = 4;
  settings.max_length = 40;
  settings.priority = 2;
  settings.cache_scope = "scope";
  settings.logprobs = sampling::LogprobOptions{5, true};
  return settings;
}

TEST(SequenceSettings, EveryFieldArrives) {
  const SequenceSettings sent = Sent();
  const auto checked = CheckSequenceOptions(ToWire(sent), 100, 8);
  const auto* taken = std::get_if<SequenceSettings>(&checked);
  ASSERT_NE(taken, nullptr) << std::get<messages::Refusal>(checked).problem.message();
  EXPECT_EQ(taken->sampling, sent.sampling);
  EXPECT_EQ(taken->rule, sent.rule);
  EXPECT_EQ(taken->leniency, sent.leniency);
  EXPECT_EQ(taken->seed, sent.seed);
  EXPECT_EQ(taken->sample_index, sent.sample_index);
  EXPECT_EQ(taken->prompt_tokens, sent.prompt_tokens);
  EXPECT_EQ(taken->max_length, sent.max_length);
  EXPECT_EQ(taken->priority, sent.priority);
  EXPECT_EQ(taken->cache_scope, sent.cache_scope);
  EXPECT_EQ(taken->logprobs, sent.logprobs);
}

TEST(SequenceSettings, WhatIsAbsentStaysAbsent) {
  SequenceSettings sent = Sent();
  sent.rule = acceptance::Rule::kSpeculative;
  sent.leniency.reset();
  sent.logprobs.reset();
  const internal::v1::SequenceOptions wire = ToWire(sent);
  EXPECT_FALSE(wire.has_leniency());
  EXPECT_FALSE(wire.has_logprobs());
  const auto checked = CheckSequenceOptions(wire, 100, 8);
  const auto* taken = std::get_if<SequenceSettings>(&checked);
  ASSERT_NE(taken, nullptr) << std::get<messages::Refusal>(checked).problem.message();
  EXPECT_FALSE(taken->leniency.has_value());
  EXPECT_FALSE(taken->logprobs.has_value());
}

}  // namespace
}  // namespace tandem::speculation::sequence_settings_test
