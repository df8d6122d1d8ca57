#include "common/speculation/sequence_settings.h"

#include "common/messages/sampling_options.h"

namespace tandem::speculation {

v1::SequenceOptions ToWire(const SequenceSettings& settings) {
  v1::SequenceOptions wire;
  *wire.mutable_sampling() = messages::ToWire(settings.sampling);
  wire.set_seed(settings.seed);
  wire.set_sample_index(settings.sample_index);
  wire.set_prompt_tokens(settings.prompt_tokens);
  wire.set_max_length(settings.max_length);
  wire.set_rule(messages::ToWire(settings.rule));
  wire.set_priority(settings.priority);
  if (settings.leniency.has_value()) wire.set_leniency(static_cast<float>(*settings.leniency));
  wire.mutable_stop_token_ids()->Add(settings.sampling.stop_token_ids.begin(),
                                     settings.sampling.stop_token_ids.end());
  if (settings.logprobs.has_value()) {
    *wire.mutable_logprobs() = messages::ToWire(*settings.logprobs);
  }
  return wire;
}

}  // namespace tandem::speculation
