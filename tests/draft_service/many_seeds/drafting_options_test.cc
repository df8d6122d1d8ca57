// A draft's draft tokens under all sampling options, beside what the target's own code makes of the
// same logits.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "common/sampling/logits.h"
#include "common/sampling/token_history.h"
#include "tests/draft_service/drafters/drafting.h"
#include "tests/support/chi_square.h"

namespace tandem::draft_service {
namespace {

// Penalties and minimum tokens count what is committed and the block's own draft tokens, nothing
// that was rejected: whatever was accepted of whatever block, the next block is that of a draft
// which has just read the same text.
TEST(DraftingOptions, CountsAreRolledBack) {
  std::mt19937 random(29);
  TableModel model({});
  int stale_differs = 0;
  int rounds = 0;
  for (Rule rule :
       {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
    for (int trial = 0; trial < 30; ++trial) {
      const double temperature =
          rule == Rule::kGreedy || (rule == Rule::kLenient && trial % 2 == 0) ? 0 : 0.9;
      DrafterSetup sequence = AllOptions(static_cast<uint64_t>(trial), rule, temperature);
      std::vector<uint32_t> text = RandomTokens(random, 1 + random() % 50);
      sequence.prompt_tokens = static_cast<uint32_t>(random() % (text.size() + 1));
      if (trial % 5 == 0) sequence.proposal = Proposal::kGreedy;
      auto drafter = Make(model, sequence);
      Accept(*drafter, 0, text);
      for (int round = 0; round < 8; ++round) {
        const uint32_t max = 1 + static_cast<uint32_t>(random() % 6);
        const CandidateTree block = Propose(*drafter, max);
        auto fresh = Make(model, sequence);
        Accept(*fresh, 0, text);
        const CandidateTree expected = Propose(*fresh, max);
        ASSERT_EQ(block.tokens, expected.tokens) << Name(rule) << " " << trial << " " << round;
        ASSERT_EQ(block.q.size(), expected.q.size());
        for (size_t i = 0; i < block.q.size(); ++i) {
          ASSERT_EQ(block.q[i].ids, expected.q[i].ids);
          ASSERT_EQ(block.q[i].weights, expected.q[i].weights);
        }
        const size_t accepted = random() % (block.tokens.size() + 1);
        const absl::Span<const uint32_t> drafted = block.tokens;
        std::vector<uint32_t> next(drafted.begin(),
                                   drafted.begin() + static_cast<ptrdiff_t>(accepted));
        next.push_back(static_cast<uint32_t>(random() % kVocabulary));
        size_t keep = text.size();
        if (random() % 5 == 0) keep -= random() % text.size();
        text.resize(keep);
        text.insert(text.end(), next.begin(), next.end());
        Accept(*drafter, keep, next);
        if (rule != Rule::kCoupled || sequence.proposal != Proposal::kDefault) continue;
        // The negative control: with the rejected draft tokens counted another block comes out.
        ASSERT_EQ(TargetsOwn(model, sequence, text, 4), Propose(*drafter, 4).tokens);
        ++rounds;
        stale_differs += TargetsOwn(model, sequence, text, 4) !=
                                 TargetsOwn(model, sequence, text, 4, drafted.subspan(accepted))
                             ? 1
                             : 0;
      }
    }
  }
  EXPECT_EQ(model.live_caches(), 0);
  EXPECT_GT(stale_differs, rounds / 10) << "of " << rounds;
}

// Where a draft token is the most likely one, it is that of the logits as the options leave them.
TEST(DraftingOptions, TheMostLikelyIsThatAfterTheOptions) {
  TableModel model({});
  int changed = 0;
  for (const auto& [rule, temperature, proposal] :
       std::vector<std::tuple<Rule, double, Proposal>>{{Rule::kGreedy, 0, Proposal::kSampled},
                                                       {Rule::kGreedy, 0, Proposal::kGreedy},
                                                       {Rule::kLenient, 0, Proposal::kSampled},
                                                       {Rule::kLenient, 0.9, Proposal::kGreedy},
                                                       {Rule::kSpeculative, 0.9, Proposal::kGreedy},
                                                       {Rule::kBlock, 0.9, Proposal::kGreedy},
                                                       {Rule::kCoupled, 0.9, Proposal::kGreedy}}) {
    for (uint32_t first = 0; first < kVocabulary; ++first) {
      std::vector<uint32_t> text = {first, 1, first};
      DrafterSetup sequence = AllOptions(5, rule, temperature);
      sequence.prompt_tokens = 3;
      sequence.proposal = proposal;
      auto drafter = Make(model, sequence);
      Accept(*drafter, 0, text);
      const CandidateTree block = Propose(*drafter, 8);
      EXPECT_TRUE(block.q.empty());
      for (uint32_t token : block.tokens) {
        TokenHistory history(3);
        history.Append(text);
        const std::vector<float> logits = model.LogitsAfter(text);
        ASSERT_EQ(token, sampling::ArgMax(sampling::ProcessLogits(logits, kVocabulary,
                                                                  sequence.sampling, history),
                                          kVocabulary));
        changed += token != sampling::ArgMax(logits, kVocabulary) ? 1 : 0;
        text.push_back(token);
      }
    }
  }
  EXPECT_GT(changed, 20) << "the options change it now and then";
}

// The end may come from the fourth output token on: inside a block, in a later one, and after a
// part of the output was there at the beginning.
TEST(DraftingOptions, TheEndComesWhenItMay) {
  TableModel model({});
  DrafterSetup sequence;
  sequence.sampling.min_tokens = 3;
  sequence.sampling.stop_token_ids = {7};
  sequence.sampling.bias = {{7, 100}};
  sequence.prompt_tokens = 2;
  sequence.max_length = 100;
  for (Rule rule : {Rule::kSpeculative, Rule::kCoupled}) {
    sequence.rule = rule;
    for (size_t output = 0; output < 6; ++output) {
      auto drafter = Make(model, sequence);
      Accept(*drafter, 0, std::vector<uint32_t>(2 + output, 1));
      const CandidateTree block = Propose(*drafter, 5);
      for (size_t i = 0; i < 5; ++i)
        EXPECT_EQ(block.tokens[i] == 7, output + i >= 3) << output << " " << i;
    }
  }
}

// Blocks of two against the draft's own probabilities at its own temperature, with a penalty that
// makes the second depend on the first beyond what the model does. `judged`: whose they are held to
// be.
testing::ChiSquare PairsAgainst(Rule rule, const DrafterSetup& drawn, const DrafterSetup& judged) {
  TableModel model({});
  const std::vector<uint32_t> prompt = {4, 1};
  std::vector<int64_t> counts(kVocabulary * kVocabulary);
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    DrafterSetup sequence = drawn;
    sequence.rule = rule;
    sequence.seed = seed;
    auto drafter = Make(model, sequence);
    Accept(*drafter, 0, prompt);
    const CandidateTree block = Propose(*drafter, 2);
    ++counts[block.tokens[0] * kVocabulary + block.tokens[1]];
  }
  std::vector<double> probabilities(counts.size());
  TokenHistory history(judged.prompt_tokens);
  history.Append(prompt);
  const auto first =
      sampling::MakeDistribution(model.LogitsAfter(prompt), kVocabulary, judged.sampling, history);
  for (size_t i = 0; i < first.ids.size(); ++i) {
    TokenHistory longer = history;
    longer.Append(first.ids[i]);
    const auto second = sampling::MakeDistribution(model.LogitsAfter(longer.tokens()), kVocabulary,
                                                   judged.sampling, longer);
    for (size_t j = 0; j < second.ids.size(); ++j) {
      probabilities[first.ids[i] * kVocabulary + second.ids[j]] =
          first.probabilities[i] * second.probabilities[j];
    }
  }
  return testing::GoodnessOfFit(probabilities, counts);
}

TEST(DraftingOptions, SampledBlocksFollowTheDraftsOwnTemperature) {
  for (double temperature : {0.6, 1.7}) {
    DrafterSetup sequence;
    sequence.sampling.temperature = temperature;
    sequence.sampling.frequency_penalty = 1;
    sequence.prompt_tokens = 2;
    sequence.max_length = 100;
    DrafterSetup at_one = sequence;
    at_one.sampling.temperature = 1;
    DrafterSetup without = sequence;
    without.sampling.frequency_penalty = 0;
    for (Rule rule : {Rule::kSpeculative, Rule::kBlock, Rule::kCoupled, Rule::kLenient}) {
      const testing::ChiSquare fit = PairsAgainst(rule, sequence, sequence);
      EXPECT_TRUE(fit.Passes()) << Name(rule) << " " << fit.ToString();
    }
    const testing::ChiSquare other = PairsAgainst(Rule::kSpeculative, sequence, at_one);
    EXPECT_TRUE(other.ControlIsCaught()) << other.ToString();
    const testing::ChiSquare unpenalised = PairsAgainst(Rule::kSpeculative, sequence, without);
    EXPECT_TRUE(unpenalised.ControlIsCaught()) << unpenalised.ToString();
  }
}

}  // namespace
}  // namespace tandem::draft_service
