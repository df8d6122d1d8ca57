#include "tests/orchestrator/table_sequence.h"

#include "common/acceptance/rule.h"
#include "common/rpc/prefix.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {

void TableSequence::Forget() {
  open_ = false;
  setup_.reset();
  held_.clear();
  last_round_ = 0;
}

VerifyReply TableSequence::Answer(const VerifyStep& step) {
  VerifyReply reply;
  reply.round = step.round;
  EXPECT_EQ(step.setup.has_value(), step.prefix.keep == 0);
  EXPECT_GE(step.round, last_round_) << "rounds rise";
  EXPECT_TRUE(!step.more || step.block.tokens.empty());
  if (step.prefix.keep == 0) {
    setup_ = step.setup;
    open_ = true;
    held_.clear();
  }
  if (step.prefix.keep > held_.size()) {
    reply.status = VerifyReply::Status::kNeedPrefix;
    reply.held = static_cast<uint32_t>(held_.size());
    return reply;
  }
  EXPECT_TRUE(open_);
  std::vector<uint32_t> context(held_.begin(), held_.begin() + step.prefix.keep);
  context.insert(context.end(), step.prefix.tokens.begin(), step.prefix.tokens.end());
  EXPECT_EQ(step.prefix.hash, rpc::PrefixHash(context));
  EXPECT_GE(context.size(), 1u);
  EXPECT_LE(context.size() + step.block.tokens.size(), setup_->most_tokens);
  last_round_ = step.round;
  held_ = context;
  if (step.more) return reply;

  const uint32_t committed = static_cast<uint32_t>(context.size());
  std::vector<sampling::Distribution> p;
  std::vector<const sampling::SparseDistribution*> q;
  sampling::TokenHistory history(setup_->prompt_tokens);
  history.Append(context);
  for (size_t i = 0; i <= step.block.tokens.size(); ++i) {
    p.push_back(sampling::MakeDistribution(
        model_.LogitsAfter(context), model_.info().vocabulary_size, setup_->sampling, history));
    if (i == step.block.tokens.size()) break;
    context.push_back(step.block.tokens[i]);
    history.Append(step.block.tokens[i]);
    const bool good =
        !step.block.q.empty() &&
        sampling::ValidateFor(step.block.q[i], step.block.tokens[i], model_.info().vocabulary_size)
            .ok();
    if (!good && !step.block.q.empty()) ++reply.one_hot_candidates;
    q.push_back(good ? &step.block.q[i] : nullptr);
  }
  held_ = context;  // candidates, too
  acceptance::JudgeInput input;
  input.rule = setup_->rule;
  input.key = {setup_->seed, setup_->sample_index, committed};
  input.p = p;
  input.candidates = step.block.tokens;
  input.q = q;
  reply.entries = acceptance::Judge(input);
  reply.computed = absl::Milliseconds(1);
  return reply;
}

}  // namespace tandem::orchestrator
