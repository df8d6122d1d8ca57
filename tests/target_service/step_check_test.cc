#include "target_service/step_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

struct Case {
  std::string field;
  std::function<void(internal::v1::Step&)> spoil;
};

// Each fault is refused by the name of its field.
TEST(StepCheck, NamesTheField) {
  const std::vector<uint32_t> prompt = {1, 2, 3};
  const StepLimits limits{4, 8, 32, {acceptance::Rule::kSpeculative}};
  const std::vector<Case> cases = {
      {"assumes", [](internal::v1::Step& step) { step.mutable_assumes(); }},
      {"parents", [](internal::v1::Step& step) { step.add_parents(0); }},
      {"trace.value", [](internal::v1::Step& step) { step.mutable_trace()->set_value("short"); }},
      {"prefix", [](internal::v1::Step& step) { step.mutable_prefix()->clear_tokens(); }},
      {"prefix", [](internal::v1::Step& step) { step.mutable_prefix()->set_keep(4294967295u); }},
      {"prefix.tokens[1]",
       [](internal::v1::Step& step) { step.mutable_prefix()->set_tokens(1, 8); }},
      {"candidates",
       [](internal::v1::Step& step) {
         for (int i = 0; i < 5; ++i) step.add_candidates(1);
       }},
      {"candidates",
       [](internal::v1::Step& step) {
         step.set_more(true);
         step.add_candidates(1);
       }},
      {"q",
       [](internal::v1::Step& step) {
         step.add_candidates(1);
         step.add_candidates(1);
         step.add_q();
       }},
      // The ranges of options: tests/common/speculation/sequence_options_test.cc. These show that
      // they are looked at, with this target's vocabulary and context.
      {"options.sampling.temperature",
       [](internal::v1::Step& step) {
         step.mutable_options()->mutable_sampling()->set_temperature(-1);
       }},
      {"options.sampling.banned_token_ids[0]",
       [](internal::v1::Step& step) {
         step.mutable_options()->mutable_sampling()->add_banned_token_ids(8);
       }},
      {"options.max_length",
       [](internal::v1::Step& step) { step.mutable_options()->set_max_length(33); }},
      // Here the only rule that is served is another one.
      {"options.rule",
       [](internal::v1::Step& step) { step.mutable_options()->set_rule(v1::RULE_BLOCK); }},
      {"options.rule", [](internal::v1::Step& step) { step.mutable_options()->clear_rule(); }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    internal::v1::SequenceOptions options = SampledOptions();
    options.set_max_length(32);
    internal::v1::Step step = FirstStep(1, prompt, {}, options);
    ASSERT_TRUE(std::holds_alternative<CheckedStep>(CheckStep(step, limits)));
    cases[i].spoil(step);
    auto result = CheckStep(step, limits);
    ASSERT_TRUE(std::holds_alternative<messages::Refusal>(result)) << "case " << i;
    const messages::Refusal& refusal = std::get<messages::Refusal>(result);
    EXPECT_EQ(refusal.status, internal::v1::STATUS_INVALID);
    EXPECT_EQ(refusal.problem.field(), cases[i].field) << refusal.problem.message();
    EXPECT_FALSE(refusal.problem.message().empty());
  }
}

TEST(StepCheck, MalformedQBecomesOneHot) {
  internal::v1::Step step = FirstStep(1, std::vector<uint32_t>{1}, {{1, 2, 3}});
  internal::v1::SparseDistribution* good = step.add_q();
  good->add_ids(1);
  good->add_weights(9);
  internal::v1::SparseDistribution* uneven = step.add_q();
  uneven->add_ids(2);
  step.add_q();  // empty
  auto result = CheckStep(step, {4, 8, 256, {acceptance::Rule::kSpeculative}});
  ASSERT_TRUE(std::holds_alternative<CheckedStep>(result));
  const CheckedStep& checked = std::get<CheckedStep>(result);
  EXPECT_FALSE(checked.block.q[0].ids.empty());
  EXPECT_TRUE(checked.block.q[1].ids.empty());
  EXPECT_TRUE(checked.block.q[2].ids.empty());
  EXPECT_EQ(checked.one_hot_candidates, 2u);
}

}  // namespace
}  // namespace tandem::target_service
