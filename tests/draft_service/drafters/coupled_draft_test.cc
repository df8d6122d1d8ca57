// Under rule coupled the draft proposes with the target's own noise.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "common/acceptance/rule.h"
#include "common/sampling/token_history.h"
#include "tests/draft_service/drafters/drafting.h"

namespace tandem::draft_service {
namespace {

// The rule's verdict on a block, as a target gives it.
acceptance::Decision Judge(const TableModel& model, const DrafterSetup& target,
                           absl::Span<const uint32_t> text, absl::Span<const uint32_t> candidates) {
  TokenHistory history(target.prompt_tokens);
  history.Append(text);
  std::vector<sampling::Distribution> p;
  for (size_t i = 0; i <= candidates.size(); ++i) {
    p.push_back(sampling::MakeDistribution(model.LogitsAfter(history.tokens()), kVocabulary,
                                           target.sampling, history));
    if (i < candidates.size()) history.Append(candidates[i]);
  }
  const random::RoundKey key{target.seed, target.sample_index, static_cast<uint32_t>(text.size())};
  const auto entries =
      acceptance::Judge({.rule = Rule::kCoupled, .key = key, .p = p, .candidates = candidates});
  return acceptance::Decide(Rule::kCoupled, entries,
                            acceptance::AcceptUniforms(key, static_cast<int>(candidates.size())));
}

struct Acceptance {
  int candidates = 0;
  int accepted = 0;
};

// Rounds of four draft tokens by the coupled rule: a draft token stands when it is what the target
// draws there itself, and the target's draw follows the last one that stands. The text is the
// target's own then, whatever the draft's `change`.
Acceptance Couple(TableModel& model, TableModel& draft_model,
                  const std::function<void(DrafterSetup&)>& change) {
  Acceptance result;
  std::mt19937 random(23);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<uint32_t> text = RandomTokens(random, 1 + random() % 12);
    DrafterSetup target = AllOptions(seed, Rule::kCoupled);
    target.prompt_tokens = static_cast<uint32_t>(text.size());
    DrafterSetup sequence = target;
    change(sequence);
    auto drafter = Make(draft_model, sequence);
    Accept(*drafter, 0, text);
    for (int round = 0; round < 6; ++round) {
      const CandidateTree block = Propose(*drafter, 4);
      EXPECT_EQ(block.tokens.size(), 4u);
      EXPECT_TRUE(block.q.empty()) << "the rule needs none";
      std::vector<uint32_t> next = TargetsOwn(model, target, text, 5);
      const size_t accepted = Judge(model, target, text, block.tokens).accepted;
      EXPECT_TRUE(std::equal(next.begin(), next.begin() + accepted, block.tokens.begin()));
      EXPECT_TRUE(accepted == 4 || next[accepted] != block.tokens[accepted]);
      result.candidates += 4;
      result.accepted += static_cast<int>(accepted);
      next.resize(accepted + 1);
      const size_t keep = text.size();
      text.insert(text.end(), next.begin(), next.end());
      Accept(*drafter, keep, next);
    }
  }
  return result;
}

TEST(CoupledDraft, WithTheTargetsModelEveryCandidateStands) {
  TableModel model({});
  const Acceptance result = Couple(model, model, [](DrafterSetup&) {});
  EXPECT_EQ(result.candidates, 60 * 6 * 4);
  EXPECT_EQ(result.accepted, result.candidates);
}

// Controls: each thing that the draft has to do alike is required for that.
TEST(CoupledDraft, WithoutOneOfTheOptionsNotEveryCandidateStands) {
  TableModel model({});
  const std::vector<std::pair<const char*, std::function<void(DrafterSetup&)>>> kChanges = {
      {"seed", [](DrafterSetup& s) { ++s.seed; }},
      {"sample_index", [](DrafterSetup& s) { ++s.sample_index; }},
      {"prompt_tokens", [](DrafterSetup& s) { s.prompt_tokens = 0; }},
      {"bias", [](DrafterSetup& s) { s.sampling.bias.clear(); }},
      {"bans", [](DrafterSetup& s) { s.sampling.banned.clear(); }},
      {"minimum tokens", [](DrafterSetup& s) { s.sampling.min_tokens = 0; }},
      {"end tokens", [](DrafterSetup& s) { s.sampling.stop_token_ids.clear(); }},
      {"repetition", [](DrafterSetup& s) { s.sampling.repetition_penalty = 1; }},
      {"presence", [](DrafterSetup& s) { s.sampling.presence_penalty = 0; }},
      {"frequency", [](DrafterSetup& s) { s.sampling.frequency_penalty = 0; }},
      {"temperature", [](DrafterSetup& s) { s.sampling.temperature = 0.5; }},
      {"top_k", [](DrafterSetup& s) { s.sampling.top_k = 2; }},
      {"top_p", [](DrafterSetup& s) { s.sampling.top_p = 0.5; }},
      {"min_p", [](DrafterSetup& s) { s.sampling.min_p = 0.5; }},
      {"proposal", [](DrafterSetup& s) { s.proposal = Proposal::kGreedy; }},
  };
  for (const auto& [name, change] : kChanges) {
    const Acceptance result = Couple(model, model, change);
    EXPECT_LT(result.accepted, result.candidates) << name;
  }
}

// Of another model most of it stands still, and its own seed is worth much.
TEST(CoupledDraft, WithAnotherModelTheNoiseIsShared) {
  TableModel model({});
  TableModel other({.noise = 0.5, .noise_seed = 4});
  const Acceptance coupled = Couple(model, other, [](DrafterSetup&) {});
  const Acceptance apart = Couple(model, other, [](DrafterSetup& s) { ++s.seed; });
  EXPECT_LT(coupled.accepted, coupled.candidates);
  EXPECT_GT(coupled.accepted, 2 * apart.accepted);
}

}  // namespace
}  // namespace tandem::draft_service
