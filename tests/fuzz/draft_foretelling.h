// What the draft's fuzzer opens sequences with, and what the model then has to propose.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/check.h"
#include "common/messages/sampling_options.h"
#include "common/random/random.h"
#include "common/sampling/distribution.h"
#include "common/sampling/sparse.h"
#include "common/sampling/token_history.h"
#include "tandem/internal/v1/draft.pb.h"
#include "tests/draft_service/harness.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service {

inline constexpr uint32_t kVocabulary = 8;

struct Told {
  internal::v1::SequenceOptions options;
  v1::Proposal proposal = v1::PROPOSAL_UNSPECIFIED;
};

inline uint32_t AnyToken(FuzzedDataProvider& data) {
  return data.ConsumeIntegralInRange(0u, kVocabulary - 1);
}
inline float AnyFloat(FuzzedDataProvider& data) {
  if (data.ConsumeBool()) return std::numeric_limits<float>::quiet_NaN();
  return data.ConsumeFloatingPoint<float>();
}

inline v1::Proposal AnyProposal(FuzzedDataProvider& data) {
  static const v1::Proposal kProposals[] = {v1::PROPOSAL_UNSPECIFIED, v1::PROPOSAL_SAMPLED,
                                            v1::PROPOSAL_GREEDY};
  return data.PickValueInArray(kProposals);
}

// Within the ranges; all of it together may be refused still.
inline internal::v1::SequenceOptions MakeOptions(FuzzedDataProvider& data, uint64_t seed) {
  static const float kTemperatures[] = {0, 1, 0.4f, 2};
  static const v1::Rule kRules[] = {v1::RULE_SPECULATIVE, v1::RULE_COUPLED, v1::RULE_BLOCK,
                                    v1::RULE_LENIENT};
  internal::v1::SequenceOptions options =
      SampledOptions(seed, data.PickValueInArray(kTemperatures));
  options.set_rule(data.PickValueInArray(kRules));
  if (options.rule() == v1::RULE_LENIENT) options.set_leniency(0.5f);
  options.set_sample_index(data.ConsumeIntegralInRange(0u, 3u));
  options.set_prompt_tokens(data.ConsumeIntegralInRange(0u, 12u));
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  const uint32_t on = data.ConsumeIntegral<uint32_t>();
  if (on & 1) sampling.set_top_k(data.ConsumeIntegralInRange(0u, kVocabulary + 1));
  if (on & 2) sampling.set_top_p(0.8f);
  if (on & 4) sampling.set_min_p(0.1f);
  if (on & 8) sampling.set_repetition_penalty(data.ConsumeBool() ? 1.5f : 0.5f);
  if (on & 16) sampling.set_presence_penalty(data.ConsumeBool() ? 1.0f : -1.0f);
  if (on & 32) sampling.set_frequency_penalty(data.ConsumeBool() ? 2.0f : -2.0f);
  if (on & 64) {
    v1::LogitBias& bias = *sampling.add_logit_bias();
    bias.set_token(AnyToken(data));
    bias.set_bias(data.ConsumeBool() ? 3.0f : -100.0f);
  }
  if (on & 128) sampling.add_banned_token_ids(AnyToken(data));
  for (int i = 0; (on & 256) && i < 4; ++i) sampling.add_allowed_token_ids(AnyToken(data));
  if (on & 512) {
    sampling.set_min_tokens(data.ConsumeIntegralInRange(0u, 10u));
    options.add_stop_token_ids(AnyToken(data));
  }
  return options;
}

inline Told MakeTold(FuzzedDataProvider& data, uint64_t seed) {
  Told told;
  told.options = MakeOptions(data, seed);
  told.proposal = AnyProposal(data);
  return told;
}

// Any value, in its range or not.
inline void SpoilOptions(FuzzedDataProvider& data, internal::v1::SequenceOptions& options) {
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  switch (data.ConsumeIntegralInRange(0, 13)) {
    case 0:
      return sampling.set_temperature(AnyFloat(data));
    case 1:
      return sampling.set_top_p(AnyFloat(data));
    case 2:
      return sampling.set_min_p(AnyFloat(data));
    case 3:
      return sampling.set_repetition_penalty(AnyFloat(data));
    case 4:
      return sampling.set_presence_penalty(AnyFloat(data));
    case 5:
      return sampling.set_frequency_penalty(AnyFloat(data));
    case 6:
      return sampling.add_logit_bias()->set_token(data.ConsumeIntegral<uint32_t>());
    case 7:
      return sampling.add_logit_bias()->set_bias(AnyFloat(data));
    case 8:
      return sampling.add_banned_token_ids(data.ConsumeIntegral<uint32_t>());
    case 9:
      return sampling.add_allowed_token_ids(data.ConsumeIntegral<uint32_t>());
    case 10:
      return options.add_stop_token_ids(data.ConsumeIntegral<uint32_t>());
    case 11:
      return options.set_leniency(AnyFloat(data));
    case 12:
      return options.set_rule(static_cast<v1::Rule>(data.ConsumeIntegral<uint8_t>()));
    default:
      return options.mutable_logprobs()->set_top(data.ConsumeIntegral<uint32_t>());
  }
}

// What candidate_draw.h promises, counted anew for every draft token.
inline void CheckForetold(const internal::v1::Block& block, const Told& told,
                          std::vector<uint32_t> context, const testing::TableModel& model) {
  const internal::v1::SequenceOptions& options = told.options;
  if (context.empty()) return;
  sampling::SamplingParameters parameters = messages::FromWire(options.sampling());
  parameters.stop_token_ids = {options.stop_token_ids().begin(), options.stop_token_ids().end()};
  if (told.proposal == v1::PROPOSAL_GREEDY) parameters.temperature = 0;
  const bool coupled = options.rule() == v1::RULE_COUPLED;
  const random::RoundKey key{options.seed(), options.sample_index(),
                             static_cast<uint32_t>(context.size())};
  TANDEM_CHECK(block.tokens().empty() || block.q().empty() == (parameters.greedy() || coupled));
  for (int i = 0; i < block.tokens_size(); ++i) {
    sampling::TokenHistory history(options.prompt_tokens());
    history.Append(context);
    const auto position = static_cast<uint32_t>(context.size());
    const auto q =
        sampling::MakeDistribution(model.LogitsAfter(context), kVocabulary, parameters, history);
    uint32_t expected = 0;
    if (block.q().empty()) {  // at temperature 0 the race is of one token
      expected = sampling::DrawRace(q, key.seed, key.sample_index, position);
    } else {
      const auto sent = sampling::Sparsify(q, sampling::kMaxSparseEntries);
      TANDEM_CHECK(std::equal(sent.weights.begin(), sent.weights.end(),
                              block.q(i).weights().begin(), block.q(i).weights().end()));
      expected = sampling::Draw(sent, random::Uniform(key, position, random::Purpose::kDraft));
    }
    TANDEM_CHECK(block.tokens(i) == expected) << block.ShortDebugString();
    context.push_back(expected);
  }
}

}  // namespace tandem::draft_service
