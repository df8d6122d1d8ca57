// config.json and generation_config.json of a Hugging Face directory, as transformers 4 and 5 write
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace tandem::model {

// Rotary embedding. kLlama3: low frequencies are stretched by `factor` (Llama 3.1's long context).
struct RopeConfig {
  enum class Type { kDefault, kLlama3 };
  Type type = Type::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int original_context = 0;  // positions
};

struct LlamaConfig {
  int vocabulary_size = 0;
  int context_length = 0;  // max_position_embeddings
  int hidden_size = 0;
  int feed_forward_size = 0;  // intermediate_size
  int layers = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;  // head_dim; hidden_size / heads where it is not given
  double rms_norm_epsilon = 1e-6;
  RopeConfig rope;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::vector<uint32_t>
      eos_token_ids;  // generation_config.json's where it has some, else config.json's

  // Told as the model's own (ModelInfo). ReadConfig leaves it empty: generation_config.h reads it.
  SamplingDefaults sampling_defaults;

  // Everything that a logit depends on besides the weights, in a fixed spelling; for content ids.
  std::string Canonical() const;
};

// NOT_FOUND: no such directory, or no config.json in it. INVALID_ARGUMENT: one message with all
// fields that are missing, out of range or not supported, each with its value and what is
// supported.
absl::StatusOr<LlamaConfig> ReadConfig(const std::string& directory);

// inv_freq of each pair of a head's elements: [head_size / 2], radians a position, as transformers
// computes them (rounded to float32).
std::vector<float> RopeFrequencies(const RopeConfig& rope, int head_size);

}  // namespace tandem::model
