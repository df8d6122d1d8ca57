// Llama 2 and 3, and what was made in their form (SmolLM2, TinyLlama, …). Source: transformers,
// models/llama/configuration_llama.py and modeling_llama.py.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadLlama(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, {});
  spec.norm.kind = NormSpec::Kind::kRms;
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.mlp_bias = fields.Bool("mlp_bias", false);
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  if (fields.Has("sliding_window")) fields.Problem("sliding_window", "supported: null");
  return spec;
}

}  // namespace

const Family& LlamaFamily() {
  static const Family family = {
      .name = "llama",
      .architectures = {"LlamaForCausalLM"},
      .read = ReadLlama,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
