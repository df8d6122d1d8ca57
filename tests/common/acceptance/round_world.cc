#include "tests/common/acceptance/round_world.h"

#include <algorithm>

#include "common/sampling/token_history.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SamplingParameters;
using sampling::SparseDistribution;

namespace {

const Tokens kPrompt = {1, 0};

testing::TableModelOptions ModelOptions(const Setting& setting, double noise) {
  return {.vocabulary_size = setting.vocabulary,
          .seed = 3,
          .peakedness = 1.2,
          .noise = noise,
          .noise_seed = 4};
}

}  // namespace

std::vector<NamedOptions> OptionSets(bool greedy) {
  std::vector<NamedOptions> sets = {
      {"plain", {}},
      {"temperature", {.temperature = 0.6}},
      {"top_k", {.top_k = 2}},
      {"top_p", {.top_p = 0.7}},
      {"min_p", {.min_p = 0.3}},
      {"bias and bans", {.bias = {{0, 1.5}, {1, -0.5}}, .banned = {2}}},
      {"allowed", {.allowed = {0, 2}}},
      {"penalties", {.repetition_penalty = 1.4, .presence_penalty = 0.7, .frequency_penalty = 0.5}},
      {"minimum tokens", {.min_tokens = 3, .stop_token_ids = {1}}},
      {"all of them",
       {.temperature = 0.8,
        .top_k = 3,
        .top_p = 0.95,
        .min_p = 0.02,
        .repetition_penalty = 1.2,
        .presence_penalty = -0.2,
        .frequency_penalty = 0.4,
        .bias = {{1, 0.5}},
        .min_tokens = 2,
        .stop_token_ids = {0}}},
  };
  for (NamedOptions& set : sets) {
    if (greedy) set.options.temperature = 0;
  }
  return sets;
}

World::World(const Setting& setting)
    : setting_(setting), target_(ModelOptions(setting, 0)), draft_(ModelOptions(setting, 1)) {}

Distribution World::Make(const testing::TableModel& model, const SamplingParameters& options,
                         const Tokens& tokens, const Tokens& leftovers) const {
  Tokens context = kPrompt;
  for (uint32_t token : tokens) context.push_back(token < setting_.vocabulary ? token : 0);
  sampling::TokenHistory history(static_cast<uint32_t>(kPrompt.size()));
  history.Append(kPrompt);
  history.Append(leftovers);
  history.Append(tokens);
  return sampling::MakeDistribution(model.LogitsAfter(context), setting_.vocabulary, options,
                                    history);
}

const Distribution& World::P(const Tokens& tokens, const Tokens& leftovers) {
  auto [it, is_new] = p_.try_emplace({tokens, leftovers});
  if (is_new) it->second = Make(target_, setting_.options, tokens, leftovers);
  return it->second;
}

SparseDistribution World::Q(const Tokens& tokens) {
  SamplingParameters options;
  if (setting_.draft == Draft::kSampled) options = setting_.options;
  options.temperature = std::max(options.temperature, 0.5);  // draws, for a greedy target too
  const int max = setting_.wrong == Wrong::kQBeforeTruncation
                      ? static_cast<int>(setting_.vocabulary)
                      : setting_.top_m;
  return Sparsify(Make(draft_, options, tokens, {}), max);
}

void World::Extend(const WeightedBlock& block, const Tokens& committed, const Tokens& leftovers,
                   std::vector<WeightedBlock>& blocks) {
  if (block.tokens.size() == static_cast<size_t>(setting_.block)) {
    blocks.push_back(block);
    return;
  }
  Tokens context = committed;
  context.insert(context.end(), block.tokens.begin(), block.tokens.end());
  const auto extend = [&](uint32_t candidate, double weight, const SparseDistribution& q) {
    WeightedBlock longer = block;
    longer.weight *= weight;
    const bool dropped =
        (setting_.wrong == Wrong::kDropsUnlikelyToken && q(candidate) < 0.5) ||
        (setting_.wrong == Wrong::kDropsBannedToken && P(context, leftovers)(candidate) == 0);
    if (dropped) {
      blocks.push_back(longer);
      return;
    }
    longer.tokens.push_back(candidate);
    longer.q.push_back(q);
    Extend(longer, committed, leftovers, blocks);
  };
  const SparseDistribution q = Q(context);
  switch (setting_.draft) {
    case Draft::kOneHot:
      extend(q.ids[0], 1, {});
      break;
    case Draft::kRandom:
      extend(0, 0.5, {});
      extend(setting_.vocabulary - 1, 0.375, {});
      extend(setting_.vocabulary + 7, 0.125, {});
      break;
    case Draft::kSampled:
    case Draft::kUnaware: {
      SparseDistribution drawn = q;
      const size_t entries = std::min<size_t>(q.ids.size(), setting_.top_m);
      drawn.ids.resize(entries);  // the whole of q, unless it is sent before truncation
      drawn.weights.resize(entries);
      for (uint32_t id : drawn.ids) extend(id, drawn(id), q);
      break;
    }
  }
}

std::vector<WeightedBlock> World::Blocks(const Tokens& committed, const Tokens& leftovers) {
  std::vector<WeightedBlock> blocks;
  Extend({}, committed, leftovers, blocks);
  return blocks;
}

}  // namespace tandem::acceptance
