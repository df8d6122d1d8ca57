#include "target_service/step_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

struct Case {
  std::string field;
  std::function<void(v1::Step&)> spoil;
};

// Each fault is refused by the name of its field.
TEST(StepCheck, NamesTheField) {
  const std::vector<uint32_t> prompt = {1, 2, 3};
  const StepLimits limits{4, 8, 32};
  const std::vector<Case> cases = {
      {"assumes", [](v1::Step& step) { step.mutable_assumes(); }},
      {"parents", [](v1::Step& step) { step.add_parents(0); }},
      {"trace.value", [](v1::Step& step) { step.mutable_trace()->set_value("short"); }},
      {"prefix", [](v1::Step& step) { step.mutable_prefix()->clear_tokens(); }},
      {"prefix", [](v1::Step& step) { step.mutable_prefix()->set_keep(4294967295u); }},
      {"prefix.tokens[1]", [](v1::Step& step) { step.mutable_prefix()->set_tokens(1, 8); }},
      {"candidates",
       [](v1::Step& step) {
         for (int i = 0; i < 5; ++i) step.add_candidates(1);
       }},
      {"candidates",
       [](v1::Step& step) {
         step.set_more(true);
         step.add_candidates(1);
       }},
      {"q",
       [](v1::Step& step) {
         step.add_candidates(1);
         step.add_candidates(1);
         step.add_q();
       }},
      {"options.sampling.temperature",
       [](v1::Step& step) { step.mutable_options()->mutable_sampling()->set_temperature(-1); }},
      {"options.sampling.top_p",
       [](v1::Step& step) { step.mutable_options()->mutable_sampling()->set_top_p(0); }},
      {"options.sampling.min_p",
       [](v1::Step& step) { step.mutable_options()->mutable_sampling()->set_min_p(1.1f); }},
      {"options.sampling.presence_penalty",
       [](v1::Step& step) { step.mutable_options()->mutable_sampling()->set_presence_penalty(3); }},
      {"options.leniency",
       [](v1::Step& step) { step.mutable_options()->set_rule(v1::RULE_LENIENT); }},
      {"options.rule", [](v1::Step& step) { step.mutable_options()->set_rule(v1::RULE_GREEDY); }},
      {"options.rule",
       [](v1::Step& step) { step.mutable_options()->set_rule(static_cast<v1::Rule>(77)); }},
      {"options.sample_index",
       [](v1::Step& step) { step.mutable_options()->set_sample_index(65536); }},
      {"options.most_tokens", [](v1::Step& step) { step.mutable_options()->set_most_tokens(0); }},
      {"options.most_tokens", [](v1::Step& step) { step.mutable_options()->set_most_tokens(33); }},
      {"options.prompt_tokens",
       [](v1::Step& step) { step.mutable_options()->set_prompt_tokens(33); }},
      {"options.priority", [](v1::Step& step) { step.mutable_options()->set_priority(11); }},
      {"options.cache_scope", [](v1::Step& step) { step.mutable_options()->set_cache_scope("x"); }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    v1::SequenceOptions options = SampledOptions();
    options.set_most_tokens(32);
    v1::Step step = FirstStep(1, prompt, {}, options);
    ASSERT_TRUE(std::holds_alternative<CheckedStep>(CheckStep(step, limits)));
    cases[i].spoil(step);
    auto result = CheckStep(step, limits);
    ASSERT_TRUE(std::holds_alternative<rpc::Refusal>(result)) << "case " << i;
    const rpc::Refusal& refusal = std::get<rpc::Refusal>(result);
    EXPECT_EQ(refusal.status, v1::STATUS_INVALID);
    EXPECT_EQ(refusal.problem.field(), cases[i].field) << refusal.problem.message();
    EXPECT_FALSE(refusal.problem.message().empty());
  }
}

TEST(StepCheck, TemperatureZeroIsGreedyUnderAnyRuleButLenient) {
  for (v1::Rule rule : {v1::RULE_UNSPECIFIED, v1::RULE_GREEDY, v1::RULE_SPECULATIVE, v1::RULE_BLOCK,
                        v1::RULE_COUPLED}) {
    v1::SequenceOptions options = SampledOptions(1, 0);
    options.set_most_tokens(32);
    options.set_rule(rule);
    auto result = CheckStep(FirstStep(1, std::vector<uint32_t>{1}, {}, options), {4, 8, 32});
    ASSERT_TRUE(std::holds_alternative<CheckedStep>(result));
    EXPECT_EQ(std::get<CheckedStep>(result).options->rule, acceptance::Rule::kGreedy);
  }
}

TEST(StepCheck, MalformedQBecomesOneHot) {
  v1::Step step = FirstStep(1, std::vector<uint32_t>{1}, {{1, 2, 3}});
  v1::SparseDistribution* good = step.add_q();
  good->add_ids(1);
  good->add_weights(9);
  v1::SparseDistribution* uneven = step.add_q();
  uneven->add_ids(2);
  step.add_q();  // empty
  auto result = CheckStep(step, {4, 8, 256});
  ASSERT_TRUE(std::holds_alternative<CheckedStep>(result));
  const CheckedStep& checked = std::get<CheckedStep>(result);
  EXPECT_TRUE(checked.q[0].has_value());
  EXPECT_FALSE(checked.q[1].has_value());
  EXPECT_FALSE(checked.q[2].has_value());
  EXPECT_EQ(checked.one_hot_candidates, 2u);
}

}  // namespace
}  // namespace tandem::target_service
