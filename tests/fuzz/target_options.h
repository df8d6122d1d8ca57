// Options of a sequence for the target's fuzzer: any good ones, and any bad one.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>

#include "common/base/check.h"
#include "common/speculation/sequence_options.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service {

// Any options that are in their ranges, under the rule.
inline internal::v1::SequenceOptions SomeOptions(FuzzedDataProvider& data, uint32_t vocabulary,
                                                 uint32_t context, uint64_t sequence) {
  const RuleCase& rule = EveryRule()[sequence % EveryRule().size()];
  internal::v1::SequenceOptions plain = OptionsOf(rule, sequence);
  plain.set_max_length(sequence % 3 == 0 ? 20 : context);
  plain.set_prompt_tokens(data.ConsumeIntegralInRange(0u, 10u));
  if (data.ConsumeBool()) {
    plain.mutable_logprobs()->set_top(data.ConsumeIntegralInRange(0u, 20u));
    plain.mutable_logprobs()->set_processed(data.ConsumeBool());
  }
  internal::v1::SequenceOptions options = plain;
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  auto share = [&data](float max) {
    return max * static_cast<float>(data.ConsumeIntegralInRange(0, 64)) / 64;
  };
  auto tokens = [&data, vocabulary](auto add) {
    for (int n = data.ConsumeIntegralInRange(0, 5); n > 0; --n) {
      add(data.ConsumeIntegralInRange(0u, vocabulary - 1));
    }
  };
  if (data.ConsumeBool()) sampling.set_top_k(data.ConsumeIntegralInRange(0u, 9u));
  if (data.ConsumeBool()) sampling.set_top_p(std::max(0.01f, share(1)));
  if (data.ConsumeBool()) sampling.set_min_p(share(1));
  if (data.ConsumeBool()) sampling.set_repetition_penalty(std::max(0.01f, share(10)));
  if (data.ConsumeBool()) sampling.set_presence_penalty(share(4) - 2);
  if (data.ConsumeBool()) sampling.set_frequency_penalty(share(4) - 2);
  if (data.ConsumeBool()) sampling.set_min_tokens(data.ConsumeIntegralInRange(0u, 12u));
  tokens([&sampling](uint32_t token) { sampling.add_banned_token_ids(token); });
  tokens([&sampling](uint32_t token) { sampling.add_allowed_token_ids(token); });
  tokens([&options](uint32_t token) { options.add_stop_token_ids(token); });
  for (uint32_t token = 0; token < vocabulary; token += data.ConsumeIntegralInRange(1u, 8u)) {
    v1::LogitBias& bias = *sampling.add_logit_bias();
    bias.set_token(token);
    bias.set_bias(share(200) - 100);
  }
  const auto checked = speculation::CheckSequenceOptions(options, context, vocabulary);
  if (const auto* refusal = std::get_if<messages::Refusal>(&checked)) {
    const std::string& field = refusal->problem.field();
    TANDEM_CHECK(field == "options.sampling.banned_token_ids" ||
                 field == "options.sampling.min_tokens")
        << "all is in its range: " << refusal->problem.ShortDebugString();
    return plain;  // they leave nothing
  }
  return options;
}

// Always so that they are refused.
inline void SpoilOptions(FuzzedDataProvider& data, uint32_t vocabulary, uint32_t context,
                         internal::v1::SequenceOptions& options) {
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  const float bad = data.ConsumeBool() ? NAN : 1e9f;
  const uint32_t unknown = data.ConsumeIntegralInRange(vocabulary, UINT32_MAX);
  switch (data.ConsumeIntegralInRange(0, 15)) {
    case 0:
      sampling.set_temperature(bad);
      break;
    case 1:
      sampling.set_top_p(bad);
      break;
    case 2:
      sampling.set_min_p(bad);
      break;
    case 3:
      sampling.set_repetition_penalty(bad);
      break;
    case 4:
      sampling.set_presence_penalty(bad);
      break;
    case 5:
      sampling.set_frequency_penalty(bad);
      break;
    case 6:
      sampling.add_logit_bias()->set_token(unknown);
      break;
    case 7:
      sampling.add_banned_token_ids(unknown);
      break;
    case 8:
      sampling.add_allowed_token_ids(unknown);
      break;
    case 9:
      options.add_stop_token_ids(unknown);
      break;
    case 10:
      options.mutable_logprobs()->set_top(data.ConsumeIntegralInRange(21u, UINT32_MAX));
      break;
    case 11:
      options.mutable_logprobs()->set_prompt(true);
      break;
    case 12:
      options.set_leniency(bad);
      break;
    case 13:
      options.set_rule(static_cast<v1::Rule>(data.ConsumeIntegralInRange(6, 1000)));
      break;
    case 14:
      for (uint32_t token = 0; token < vocabulary; ++token) sampling.add_banned_token_ids(token);
      break;
    default:
      options.set_prompt_tokens(context + 1);
  }
  const auto checked = speculation::CheckSequenceOptions(options, context, vocabulary);
  TANDEM_CHECK(std::holds_alternative<messages::Refusal>(checked)) << options.ShortDebugString();
  const internal::v1::Problem& problem = std::get<messages::Refusal>(checked).problem;
  TANDEM_CHECK(problem.field().starts_with("options.") && !problem.message().empty());
}

}  // namespace tandem::target_service
