// Chains that end where the draft model doubts: behind the first draft token at which the chance
// that all so far are accepted is too low, and never anywhere else.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/draft_service/drafters/drafting.h"

namespace tandem::draft_service::confident_chain_test {
namespace {

using Tokens = std::vector<uint32_t>;

CandidateTree ProposeConfident(Drafter& drafter, uint32_t max_draft_tokens, double min_confidence) {
  auto block =
      drafter.ProposeTree({.max_draft_tokens = max_draft_tokens, .min_confidence = min_confidence});
  TANDEM_CHECK_OK(block);
  TANDEM_CHECK(block->is_chain() && block->q.empty());
  return *std::move(block);
}

// The chance that the target draws `token` after `text`, if its logits are the draft's but for an
// error: counting anew. Under rule greedy that of the token at temperature 1, under coupled the
// share that its arrival in the race has among all.
double ChanceOf(const TableModel& model, const DrafterSetup& setup, const Tokens& text,
                uint32_t token) {
  sampling::SamplingParameters parameters = setup.sampling;
  const bool race = setup.rule == Rule::kCoupled && setup.proposal != Proposal::kGreedy;
  if (!race) parameters.temperature = 1;
  TokenHistory history(setup.prompt_tokens);
  history.Append(text);
  const auto q =
      sampling::MakeDistribution(model.LogitsAfter(text), kVocabulary, parameters, history);
  const auto ranked = race ? sampling::RankRace(q, setup.seed, setup.sample_index,
                                                static_cast<uint32_t>(text.size()), kVocabulary)
                           : sampling::RankLikeliest(q, kVocabulary);
  double sum = 0;
  for (const auto& other : ranked) sum += std::exp(other.score);
  EXPECT_EQ(ranked.front().token, token) << "the first of them is what is drafted";
  return std::exp(ranked.front().score) / sum;
}

std::vector<DrafterSetup> Setups(uint64_t seed) {
  DrafterSetup most_likely = AllOptions(seed, Rule::kCoupled);
  most_likely.proposal = Proposal::kGreedy;
  return {AllOptions(seed, Rule::kCoupled), AllOptions(seed, Rule::kGreedy, 0), most_likely};
}

TEST(ConfidentChain, EndsBehindTheFirstCandidateThatMakesItTooUnlikely) {
  std::mt19937 random(5);
  size_t ended = 0, whole = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (const DrafterSetup& setup : Setups(seed)) {
      TableModel model({.peakedness = 2});
      const Tokens text = RandomTokens(random, 4 + random() % 20);
      const double least = 0.02 + 0.1 * static_cast<double>(random() % 9);
      auto drafter = Make(model, setup);
      auto unconditional = Make(model, setup);
      for (Drafter* one : {drafter.get(), unconditional.get()}) Accept(*one, 0, text);
      const CandidateTree block = ProposeConfident(*drafter, 5, least);
      const CandidateTree longest = Propose(*unconditional, 5);
      ASSERT_GE(block.size(), 1u);
      ASSERT_EQ(block.tokens, Tokens(longest.tokens.begin(),
                                     longest.tokens.begin() + static_cast<ptrdiff_t>(block.size())))
          << "the same tokens, fewer of them";
      Tokens before = text;
      double chance = 1;
      for (size_t i = 0; i < block.size(); ++i) {
        EXPECT_GE(chance, least - 1e-9) << "candidate " << i << " was drawn behind a doubt";
        chance *= ChanceOf(model, setup, before, block.tokens[i]);
        before.push_back(block.tokens[i]);
      }
      if (block.size() < 5) {
        EXPECT_LT(chance, least + 1e-9);
        ++ended;
      } else {
        ++whole;
      }
    }
  }
  EXPECT_GT(ended, 30u);
  EXPECT_GT(whole, 3u);
}

// What came of a block that ended early is taken over like that of any other.
TEST(ConfidentChain, DependsOnTheCommittedTokensAlone) {
  std::mt19937 random(6);
  for (const DrafterSetup& setup : Setups(3)) {
    TableModel model({.peakedness = 2});
    auto drafter = Make(model, setup);
    Tokens committed = RandomTokens(random, 6);
    Accept(*drafter, 0, committed);
    for (int round = 0; round < 25 && committed.size() < 120; ++round) {
      const double least = 0.1 * static_cast<double>(random() % 7);
      const CandidateTree block = ProposeConfident(*drafter, 6, least);
      auto fresh = Make(model, setup);
      Accept(*fresh, 0, committed);
      ASSERT_EQ(block.tokens, ProposeConfident(*fresh, 6, least).tokens) << round;
      Tokens next(block.tokens.begin(),
                  block.tokens.begin() + static_cast<ptrdiff_t>(random() % (block.size() + 1)));
      next.push_back(static_cast<uint32_t>(random() % kVocabulary));
      Accept(*drafter, committed.size(), next);
      committed.insert(committed.end(), next.begin(), next.end());
    }
  }
}

// A pass is not run for a draft token that nobody draws.
TEST(ConfidentChain, ADoubtSavesThePasses) {
  const DrafterSetup setup = AllOptions(1, Rule::kCoupled);
  TableModel model({});
  auto drafter = Make(model, setup);
  Accept(*drafter, 0, {1, 2, 3});
  EXPECT_EQ(ProposeConfident(*drafter, 8, 1).size(), 1u);
  EXPECT_EQ(model.passes(), 1);
}

}  // namespace
}  // namespace tandem::draft_service::confident_chain_test
