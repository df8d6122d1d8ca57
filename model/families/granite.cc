// Granite 3 without experts: a Llama with four multipliers.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadGranite(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, {});
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.mlp_bias = fields.Bool("mlp_bias", false);
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  spec.embedding_scale = fields.Positive("embedding_multiplier", false, 1.0);
  spec.attention_scale = fields.Positive("attention_multiplier", false, 1.0);
  spec.residual_scale = fields.Positive("residual_multiplier", false, 1.0);
  spec.logit_scale = 1 / fields.Positive("logits_scaling", false, 1.0);
  return spec;
}

}  // namespace

const Family& GraniteFamily() {
  static const Family family = {
      .name = "granite",
      .architectures = {"GraniteForCausalLM"},
      .read = ReadGranite,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
