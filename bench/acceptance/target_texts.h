// Texts that a target writes by itself, and how far a draft's blocks follow them. Under greedy and coupled a
// block stands as far as it has the target's own tokens, so no verification is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/distribution.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/sequence_settings.h"
#include "model/load.h"

namespace tandem::bench {

using speculation::CandidateTree;
using Tokens = std::vector<uint32_t>;

inline constexpr size_t kPrompt = 32;

inline std::unique_ptr<model::LanguageModel> Load(const std::string& directory) {
  model::LoadOptions options;
  options.directory = directory;
  options.draft = true;  // whichever it is
  auto loaded = model::Load(options);
  TANDEM_CHECK_OK(loaded.status());
  return *std::move(loaded);
}

// From the beginning of a document: the prompt at temperature 1, the rest at `temperature`.
inline Tokens Text(model::LanguageModel& target, uint64_t seed, double temperature, size_t tokens) {
  auto cache = target.NewCache(static_cast<int>(tokens));
  TANDEM_CHECK_OK(cache.status());
  Tokens text = {0};
  while (text.size() < tokens) {
    const model::ForwardPart part{.cache = cache->get(), .tokens = {&text.back(), 1}};
    const auto logits = target.Forward({&part, 1});
    TANDEM_CHECK_OK(logits.status());
    const auto p =
        sampling::MakeDistribution(logits->row(0), target.info().vocabulary_size,
                                   {.temperature = text.size() < kPrompt ? 1 : temperature});
    text.push_back(sampling::DrawRace(p, seed, 0, static_cast<uint32_t>(text.size())));
  }
  return text;
}

// Tokens of the text after `at` that the block has on one path.
inline size_t Stands(const CandidateTree& block, const Tokens& text, size_t at) {
  size_t stands = 0;
  uint32_t end = 0;
  for (size_t i = 0; i < block.size() && at + stands < text.size(); ++i) {
    if (block.parent(i) != end || block.tokens[i] != text[at + stands]) continue;
    end = static_cast<uint32_t>(i) + 1;
    ++stands;
  }
  return stands;
}

// Of a draft for the text that `seed` gave.
inline speculation::SequenceSettings SettingsOf(const Tokens& text, uint64_t seed,
                                                double temperature) {
  speculation::SequenceSettings settings;
  settings.sampling.temperature = temperature;
  settings.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kCoupled;
  settings.seed = seed;
  settings.max_length = static_cast<uint32_t>(text.size());
  return settings;
}

}  // namespace tandem::bench
