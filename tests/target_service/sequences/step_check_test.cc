#include "target_service/sequences/step_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/target_service/harness.h"

namespace tandem::target_service {
namespace {

struct Case {
  std::string field;
  std::function<void(internal::v1::Step&)> spoil;
};

void PutTree(const std::vector<uint32_t>& tokens, const std::vector<uint32_t>& parents,
             internal::v1::Step& step) {
  step.mutable_candidates()->Add(tokens.begin(), tokens.end());
  step.mutable_parents()->Add(parents.begin(), parents.end());
}

// Each fault is refused by the name of its field.
TEST(StepCheck, NamesTheField) {
  const std::vector<uint32_t> prompt = {1, 2, 3};
  const StepLimits limits{.max_draft_tokens = 4,
                          .vocabulary_size = 8,
                          .context_length = 32,
                          .rules = {acceptance::Rule::kSpeculative, acceptance::Rule::kCoupled},
                          .max_nodes = 6};
  const std::vector<Case> cases = {
      {"after", [](internal::v1::Step& step) { step.set_after(1); }},
      {"parents", [](internal::v1::Step& step) { step.add_parents(0); }},
      // Trees: one that is well formed, and what is wrong with others.
      {"candidates",
       [](internal::v1::Step& step) {
         PutTree({1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0, 0}, step);
       }},
      {"candidates[1]",
       [](internal::v1::Step& step) {
         PutTree({1, 8}, {0, 0}, step);
       }},
      {"parents",
       [](internal::v1::Step& step) {
         PutTree({1, 2, 3}, {0, 0}, step);
       }},
      {"parents[1]",
       [](internal::v1::Step& step) {
         PutTree({1, 2, 3}, {0, 2, 0}, step);
       }},
      {"parents[2]",
       [](internal::v1::Step& step) {
         PutTree({1, 2, 1}, {0, 0, 0}, step);
       }},
      {"parents",
       [](internal::v1::Step& step) {
         PutTree({1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 0}, step);
       }},
      {"q",
       [](internal::v1::Step& step) {
         PutTree({1, 2}, {0, 0}, step);
         step.add_q();
         step.add_q();
       }},
      {"options.max_nodes",
       [](internal::v1::Step& step) {
         step.mutable_options()->set_rule(v1::RULE_COUPLED);
         step.mutable_options()->set_max_nodes(7);
       }},
      {"options.max_nodes",
       [](internal::v1::Step& step) { step.mutable_options()->set_max_nodes(1); }},
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
      // Here the rules that are served are others.
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

TEST(StepCheck, NamesTheFieldOfAChainedStep) {
  const StepLimits limits{.max_draft_tokens = 4,
                          .vocabulary_size = 8,
                          .context_length = 32,
                          .rules = {acceptance::Rule::kCoupled}};
  const auto prepared = [](internal::v1::Step& step) { return step.mutable_prepared(1); };
  const std::vector<Case> cases = {
      {"options", [](internal::v1::Step& step) { step.mutable_options(); }},
      {"prefix", [](internal::v1::Step& step) { step.mutable_prefix(); }},
      {"more", [](internal::v1::Step& step) { step.set_more(true); }},
      {"block_id", [](internal::v1::Step& step) { step.mutable_block_id(); }},
      {"candidates", [](internal::v1::Step& step) { step.add_candidates(1); }},
      {"parents", [](internal::v1::Step& step) { step.add_parents(0); }},
      {"q", [](internal::v1::Step& step) { step.add_q(); }},
      {"prompt_logprobs", [](internal::v1::Step& step) { step.set_prompt_logprobs(true); }},
      {"trace.value", [](internal::v1::Step& step) { step.mutable_trace()->set_value("short"); }},
      {"after", [](internal::v1::Step& step) { step.set_after(2); }},
      {"prepared",
       [](internal::v1::Step& step) {
         for (uint32_t i = 0; i < 15; ++i) *step.add_prepared() = step.prepared(0);
       }},
      {"prepared[1]", [&](internal::v1::Step& step) { *prepared(step) = step.prepared(0); }},
      {"prepared[1].node", [&](internal::v1::Step& step) { prepared(step)->set_node(5); }},
      {"prepared[1].next_token",
       [&](internal::v1::Step& step) { prepared(step)->set_next_token(8); }},
      {"prepared[1].candidates",
       [&](internal::v1::Step& step) { prepared(step)->clear_candidates(); }},
      {"prepared[1].candidates",
       [&](internal::v1::Step& step) {
         for (int i = 0; i < 4; ++i) prepared(step)->add_candidates(1);
       }},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    internal::v1::Step step;
    step.set_sequence(1);
    step.set_round(2);
    step.set_after(1);
    for (uint32_t token : {3, 4}) {
      internal::v1::PreparedBlock& block = *step.add_prepared();
      block.set_node(1);
      block.set_next_token(token);
      block.add_candidates(99);
    }
    ASSERT_TRUE(std::holds_alternative<CheckedStep>(CheckStep(step, limits)));
    cases[i].spoil(step);
    auto result = CheckStep(step, limits);
    ASSERT_TRUE(std::holds_alternative<messages::Refusal>(result)) << "case " << i;
    const messages::Refusal& refusal = std::get<messages::Refusal>(result);
    EXPECT_EQ(refusal.status, internal::v1::STATUS_INVALID);
    EXPECT_EQ(refusal.problem.field(), cases[i].field) << refusal.problem.message();
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
