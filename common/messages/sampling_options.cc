#include "common/messages/sampling_options.h"

namespace tandem::messages {

sampling::SamplingParameters FromWire(const v1::SamplingOptions& options,
                                      const sampling::SamplingParameters& defaults) {
  sampling::SamplingParameters parameters = defaults;
  if (options.has_temperature()) parameters.temperature = options.temperature();
  if (options.has_top_k()) parameters.top_k = options.top_k();
  if (options.has_top_p()) parameters.top_p = options.top_p();
  if (options.has_min_p()) parameters.min_p = options.min_p();
  if (options.has_repetition_penalty()) {
    parameters.repetition_penalty = options.repetition_penalty();
  }
  parameters.presence_penalty = options.presence_penalty();
  parameters.frequency_penalty = options.frequency_penalty();
  parameters.bias.clear();
  for (const v1::LogitBias& entry : options.logit_bias()) {
    parameters.bias.push_back({entry.token(), entry.bias()});
  }
  parameters.banned.assign(options.banned_token_ids().begin(), options.banned_token_ids().end());
  parameters.allowed.assign(options.allowed_token_ids().begin(), options.allowed_token_ids().end());
  parameters.min_tokens = options.min_tokens();
  return parameters;
}

v1::SamplingOptions ToWire(const sampling::SamplingParameters& parameters) {
  v1::SamplingOptions wire;
  wire.set_temperature(static_cast<float>(parameters.temperature));
  wire.set_top_k(parameters.top_k);
  wire.set_top_p(static_cast<float>(parameters.top_p));
  if (parameters.min_p != 0) wire.set_min_p(static_cast<float>(parameters.min_p));
  if (parameters.repetition_penalty != 1) {
    wire.set_repetition_penalty(static_cast<float>(parameters.repetition_penalty));
  }
  wire.set_presence_penalty(static_cast<float>(parameters.presence_penalty));
  wire.set_frequency_penalty(static_cast<float>(parameters.frequency_penalty));
  for (const sampling::TokenBias& entry : parameters.bias) {
    v1::LogitBias& bias = *wire.add_logit_bias();
    bias.set_token(entry.token);
    bias.set_bias(static_cast<float>(entry.bias));
  }
  wire.mutable_banned_token_ids()->Add(parameters.banned.begin(), parameters.banned.end());
  wire.mutable_allowed_token_ids()->Add(parameters.allowed.begin(), parameters.allowed.end());
  wire.set_min_tokens(parameters.min_tokens);
  return wire;
}

sampling::LogprobOptions FromWire(const v1::LogprobOptions& options) {
  return {options.top(), options.processed()};
}

v1::LogprobOptions ToWire(const sampling::LogprobOptions& options) {
  v1::LogprobOptions wire;
  wire.set_top(options.top);
  wire.set_processed(options.processed);
  return wire;
}

v1::Rule ToWire(acceptance::Rule rule) {
  switch (rule) {
    case acceptance::Rule::kGreedy:
      return v1::RULE_GREEDY;
    case acceptance::Rule::kSpeculative:
      return v1::RULE_SPECULATIVE;
    case acceptance::Rule::kBlock:
      return v1::RULE_BLOCK;
    case acceptance::Rule::kCoupled:
      return v1::RULE_COUPLED;
    case acceptance::Rule::kLenient:
      return v1::RULE_LENIENT;
  }
  return v1::RULE_UNSPECIFIED;
}

}  // namespace tandem::messages
