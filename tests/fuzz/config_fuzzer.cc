// Any text as config.json and generation_config.json (separated by a zero byte): refused with a
// message, or a configuration whose numbers fit each other.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/messages/request_options.h"
#include "common/messages/sampling_options.h"
#include "common/sampling/parameters.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/generation_config.h"
#include "model/rope_table.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"

namespace tandem::fuzz {
namespace {

void CheckConfig(const model::ModelConfig& config) {
  const model::DecoderSpec& spec = config.spec;
  TANDEM_CHECK(spec.vocabulary_size > 0 && spec.context_length > 0 && spec.layers > 0);
  TANDEM_CHECK(spec.hidden_size > 0 && spec.intermediate_size > 0);
  TANDEM_CHECK(spec.heads > 0 && spec.kv_heads > 0 && spec.heads % spec.kv_heads == 0);
  TANDEM_CHECK(spec.head_size > 0 && spec.head_size % 2 == 0) << spec.head_size;
  TANDEM_CHECK(spec.norm.epsilon > 0 && spec.rope.theta > 0);
  for (uint32_t token : config.eos_token_ids) {
    TANDEM_CHECK(token < static_cast<uint32_t>(spec.vocabulary_size)) << token;
  }
  TANDEM_CHECK(config.family != nullptr);
  const bool is_packed = config.packed.format != model::PackedFormat::kNone;
  TANDEM_CHECK(config.packed.group % 32 == 0 && is_packed == (config.packed.group > 0));
  TANDEM_CHECK(!config.Canonical().empty());
  for (const model::RopeSpec& rope : {spec.rope, spec.sliding_rope.value_or(spec.rope)}) {
    const std::vector<float> frequencies = model::RopeFrequencies(rope, spec.head_size);
    TANDEM_CHECK(static_cast<int>(frequencies.size()) == rope.rotary_size(spec.head_size) / 2);
    for (float frequency : frequencies) TANDEM_CHECK(!std::isnan(frequency));
  }
  TANDEM_CHECK(spec.layer_specs.empty() ||
               static_cast<int>(spec.layer_specs.size()) == spec.layers);
  // All that a family's reader takes is computed.
  const absl::Status computed = model::Decoder::CheckSpec(spec);
  TANDEM_CHECK(computed.ok()) << computed;
}

void CheckDefaults(const absl::StatusOr<model::SamplingDefaults>& defaults) {
  if (!defaults.ok()) {
    TANDEM_CHECK(absl::IsInvalidArgument(defaults.status())) << defaults.status();
    TANDEM_CHECK(!defaults.status().message().empty());
    return;
  }
  sampling::SamplingParameters parameters;
  parameters.temperature = defaults->temperature.value_or(1);
  parameters.top_k = defaults->top_k.value_or(0);
  parameters.top_p = defaults->top_p.value_or(1);
  parameters.min_p = defaults->min_p.value_or(0);
  parameters.repetition_penalty = defaults->repetition_penalty.value_or(1);
  const absl::Status status = messages::CheckRanges(messages::ToWire(parameters), "sampling");
  TANDEM_CHECK(status.ok()) << "what a file gives, a request may ask for: " << status;
}

void Run(std::string_view text) {
  static const Scratch scratch;
  const size_t zero = text.find('\0');
  scratch.Write("config.json", text.substr(0, zero));
  if (zero == std::string_view::npos) {
    scratch.Remove("generation_config.json");
  } else {
    scratch.Write("generation_config.json", text.substr(zero + 1));
  }
  CheckDefaults(model::ReadSamplingDefaults(scratch.path()));
  auto config = model::ReadConfig(scratch.path());
  if (config.ok()) {
    CheckConfig(*config);
  } else {
    TANDEM_CHECK(absl::IsInvalidArgument(config.status())) << config.status();
    TANDEM_CHECK(!config.status().message().empty());
  }
}

constexpr char kSmall[] = R"({"model_type":"llama","vocab_size":512,"max_position_embeddings":256,)"
                          R"("hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,)"
                          R"("num_attention_heads":4)";

}  // namespace

std::vector<std::string> Seeds() {
  const std::string small = kSmall;
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  return {
      small + R"(,"eos_token_id":)" + deep + "}",
      small + "}",
      small +
          R"(,"num_key_value_heads":2,"head_dim":16,"rms_norm_eps":1e-5,"eos_token_id":[1,2],)" +
          R"("tie_word_embeddings":true,"attention_bias":false,"hidden_act":"silu"})",
      small + R"(,"rope_theta":5e5,"rope_scaling":{"rope_type":"llama3","factor":8.0,)" +
          R"("low_freq_factor":1.0,"high_freq_factor":4.0,)" +
          R"("original_max_position_embeddings":8192}})",
      small + R"(,"rope_parameters":{"rope_theta":1e4,"rope_type":"default"}})" +
          std::string(1, '\0') + R"({"eos_token_id":3})",
      small + R"(,"rope_parameters":{"partial_rotary_factor":0.5},"architectures":["x"]})",
      small + "}" + std::string(1, '\0') +
          R"({"do_sample":true,"temperature":0.6,"top_k":50,"top_p":0.9,"min_p":0.1,)" +
          R"("repetition_penalty":1.1})",
      small + R"(,"quantization_config":[[[[{"a":[1,"\u00e9"]}]]]],"sliding_window":4096})",
      small + R"(,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128,)" +
          R"("desc_act":false,"sym":true,"checkpoint_format":"gptq_v2"}})",
      small + R"(,"quantization_config":{"quant_method":"compressed-tensors","format":)" +
          R"("pack-quantized","config_groups":{"a":{"targets":["Linear"],"weights":)" +
          R"({"num_bits":4,"type":"int","symmetric":false,"strategy":"group","group_size":64}}}}})",
      R"({"model_type":"gemma3","text_config":{"num_hidden_layers":2,"sliding_window":8,)"
      R"("rope_scaling":{"rope_type":"linear","factor":8.0}},"eos_token_id":[1,106]})",
      R"({"model_type":"phi3","vocab_size":9,"max_position_embeddings":64,"hidden_size":32,)"
      R"("intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":4,)"
      R"("original_max_position_embeddings":16,"partial_rotary_factor":0.5,"rope_scaling":)"
      R"({"type":"longrope","short_factor":[1,1],"long_factor":[2,4]}})",
      R"({"model_type":"qwen2","vocab_size":9,"max_position_embeddings":64,"hidden_size":32,)"
      R"("intermediate_size":8,"num_hidden_layers":2,"num_attention_heads":32,)"
      R"("use_sliding_window":true,"sliding_window":4,"max_window_layers":1,"rope_scaling":)"
      R"({"type":"yarn","factor":4.0,"original_max_position_embeddings":16}})",
      R"({"model_type":"gpt2","n_embd":32,"n_head":4,"n_layer":1,"vocab_size":9})",
  };
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  tandem::fuzz::Run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
