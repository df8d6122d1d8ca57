// Drafters driven by hand, and what the target makes of the same logits.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/sampling/distribution.h"
#include "common/sampling/token_history.h"
#include "draft_service/drafters/model_drafter.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service {

using acceptance::Rule;
using sampling::TokenHistory;
using testing::TableModel;

inline constexpr uint32_t kVocabulary = 8;

// What a test makes a drafter for.
struct DrafterSetup : speculation::SequenceSettings {
  DrafterSetup() { rule = Rule::kSpeculative; }
  Proposal proposal = Proposal::kDefault;
};

inline std::unique_ptr<Drafter> Make(TableModel& model, const DrafterSetup& sequence,
                                     const ModelDrafterOptions& options = {}) {
  auto drafter = ModelDrafterFactory(model, options).make(sequence, sequence.proposal);
  TANDEM_CHECK_OK(drafter);
  return *std::move(drafter);
}

// Every option is on, and each of them changes something.
inline DrafterSetup AllOptions(uint64_t seed, Rule rule, double temperature = 0.9) {
  DrafterSetup sequence;
  sequence.sampling.temperature = temperature;
  sequence.sampling.top_k = 6;
  sequence.sampling.top_p = 0.97;
  sequence.sampling.min_p = 0.01;
  sequence.sampling.repetition_penalty = 1.3;
  sequence.sampling.presence_penalty = 0.3;
  sequence.sampling.frequency_penalty = 0.4;
  sequence.sampling.bias = {{2, 1.5}, {5, -1}};
  sequence.sampling.banned = {6};
  sequence.sampling.min_tokens = 6;
  sequence.sampling.stop_token_ids = {0, 3};
  sequence.rule = rule;
  sequence.seed = seed;
  sequence.sample_index = 2;
  sequence.max_length = 150;
  return sequence;
}

inline std::vector<uint32_t> RandomTokens(std::mt19937& random, size_t size) {
  std::vector<uint32_t> tokens(size);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % kVocabulary);
  return tokens;
}

inline CandidateTree Propose(Drafter& drafter, uint32_t max_draft_tokens) {
  auto block = drafter.Propose(max_draft_tokens);
  TANDEM_CHECK_OK(block);
  return *std::move(block);
}

inline void Accept(Drafter& drafter, size_t keep, absl::Span<const uint32_t> tokens) {
  TANDEM_CHECK_OK(drafter.Accept(static_cast<uint32_t>(keep), tokens));
}

// What the target draws by itself after `text`: plain decoding, counting anew for every token.
// `also_counted`: tokens that are counted beside the text, which no correct draft does.
inline std::vector<uint32_t> TargetsOwn(const TableModel& model, const DrafterSetup& sequence,
                                        std::vector<uint32_t> text, size_t tokens,
                                        absl::Span<const uint32_t> also_counted = {}) {
  std::vector<uint32_t> drawn;
  while (drawn.size() < tokens) {
    TokenHistory history(sequence.prompt_tokens);
    history.Append(text);
    history.Append(also_counted);
    const auto p = sampling::MakeDistribution(model.LogitsAfter(text), kVocabulary,
                                              sequence.sampling, history);
    drawn.push_back(sampling::DrawRace(p, sequence.seed, sequence.sample_index,
                                       static_cast<uint32_t>(text.size())));
    text.push_back(drawn.back());
  }
  return drawn;
}

}  // namespace tandem::draft_service
