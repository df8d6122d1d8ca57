#include "tests/orchestrator/harness/table_sequence.h"

#include <algorithm>

#include "common/acceptance/rule.h"
#include "common/acceptance/tree.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/token_history.h"
#include "common/speculation/prefix.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {

// Rule lenient judges p before it is made one-hot.
sampling::Distribution DistributionAfter(const testing::TableModel& model,
                                         const speculation::SequenceSettings& setup,
                                         absl::Span<const uint32_t> context) {
  sampling::TokenHistory history(setup.prompt_tokens);
  history.Append(context);
  sampling::SamplingParameters parameters = setup.sampling;
  if (setup.rule == acceptance::Rule::kLenient && parameters.greedy()) parameters.temperature = 1;
  return sampling::MakeDistribution(model.LogitsAfter(context), model.info().vocabulary_size,
                                    parameters, history);
}

sampling::NodeLogprobs LogprobsOf(const testing::TableModel& model,
                                  const speculation::SequenceSettings& setup,
                                  absl::Span<const uint32_t> context,
                                  std::optional<uint32_t> candidate,
                                  std::optional<uint32_t> next_token) {
  const std::vector<float> logits = model.LogitsAfter(context);
  const sampling::Distribution p = DistributionAfter(model, setup, context);
  const sampling::Logprobs logprobs =
      setup.logprobs->processed ? sampling::Logprobs::OfDistribution(p)
                                : sampling::Logprobs::OfModel(logits, model.info().vocabulary_size);
  sampling::NodeLogprobs node;
  if (candidate.has_value()) node.candidate = logprobs(*candidate);
  if (next_token.has_value()) node.next_token = logprobs(*next_token);
  node.top = logprobs.Top(setup.logprobs->top);
  return node;
}

void TableSequence::Forget() {
  open_ = false;
  setup_.reset();
  held_.clear();
  last_round_ = 0;
}

std::vector<acceptance::Entry> TableSequence::JudgeTree(
    const speculation::CandidateTree& tree) const {
  EXPECT_TRUE(acceptance::HasTrees(setup_->rule) && !setup_->logprobs.has_value());
  EXPECT_LE(tree.size(), setup_->max_nodes);
  const auto draw = [&](const std::vector<uint32_t>& context, uint64_t seed) {
    const sampling::Distribution p = DistributionAfter(model_, *setup_, context);
    if (setup_->sampling.greedy()) return sampling::RankLikeliest(p, 1)[0].token;
    const uint32_t position = static_cast<uint32_t>(context.size());
    return sampling::DrawRace(p, seed, setup_->sample_index, position);
  };
  const auto has_child = [&](uint32_t node, uint32_t token) {
    for (size_t i = 0; i < tree.size(); ++i) {
      if (tree.parents[i] == node && tree.tokens[i] == token) return true;
    }
    return false;
  };
  std::vector<std::vector<uint32_t>> contexts = {held_};
  std::vector<uint32_t> draws;
  for (uint32_t node = 0; node <= tree.size(); ++node) {
    if (node > 0) {
      std::vector<uint32_t> context = contexts[tree.parents[node - 1]];
      context.push_back(tree.tokens[node - 1]);
      contexts.push_back(std::move(context));
    }
    draws.push_back(draw(contexts[node], setup_->seed));
    for (uint64_t again = 1; draws_again && again < 8 && !has_child(node, draws[node]); ++again) {
      draws[node] = draw(contexts[node], setup_->seed + again * 1'000'000);
    }
  }
  return acceptance::JudgeTree(draws, tree.tokens, tree.parents);
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
  EXPECT_EQ(step.prefix.hash, speculation::PrefixHash(context));
  EXPECT_GE(context.size(), 1u);
  EXPECT_LE(context.size() + step.block.depth(), setup_->max_length);
  last_round_ = step.round;
  held_ = context;
  if (step.prompt_logprobs) {
    EXPECT_TRUE(setup_->logprobs.has_value());
    for (size_t at = std::max(step.prefix.keep, 1u); at < context.size(); ++at) {
      reply.prompt_logprobs.push_back(LogprobsOf(
          model_, *setup_, absl::MakeConstSpan(context).subspan(0, at), context[at], std::nullopt));
    }
  }
  if (step.more) return reply;
  if (!step.block.parents.empty()) {
    reply.entries = JudgeTree(step.block);
    reply.computed = absl::Milliseconds(1);
    return reply;
  }

  const uint32_t committed = static_cast<uint32_t>(context.size());
  std::vector<sampling::Distribution> p;
  std::vector<const sampling::SparseDistribution*> q;
  for (size_t i = 0; i <= step.block.tokens.size(); ++i) {
    p.push_back(DistributionAfter(model_, *setup_, context));
    if (i == step.block.tokens.size()) break;
    context.push_back(step.block.tokens[i]);
    const bool good =
        !step.block.q.empty() &&
        sampling::ValidateFor(step.block.q[i], step.block.tokens[i], model_.info().vocabulary_size)
            .ok();
    if (!good && !step.block.q.empty()) ++reply.one_hot_candidates;
    q.push_back(good ? &step.block.q[i] : nullptr);
  }
  held_ = context;  // draft tokens, too
  acceptance::JudgeInput input;
  input.rule = setup_->rule;
  input.key = {setup_->seed, setup_->sample_index, committed};
  input.p = p;
  input.candidates = step.block.tokens;
  input.q = q;
  input.leniency = setup_->leniency.value_or(1);
  input.greedy = setup_->sampling.greedy();
  reply.entries = acceptance::Judge(input);
  for (size_t i = 0; setup_->logprobs.has_value() && i < reply.entries.size(); ++i) {
    std::optional<uint32_t> candidate;
    if (i < step.block.tokens.size()) candidate = step.block.tokens[i];
    reply.logprobs.push_back(LogprobsOf(model_, *setup_,
                                        absl::MakeConstSpan(context).subspan(0, committed + i),
                                        candidate, reply.entries[i].next_token));
  }
  reply.computed = absl::Milliseconds(1);
  return reply;
}

}  // namespace tandem::orchestrator
