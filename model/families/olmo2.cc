// OLMo 2: norms after attention and MLP instead of before, and norms of q and k over all heads.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadOlmo2(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, {});
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-5);
  spec.pre_norm = false;
  spec.post_norm = true;
  spec.qk_norm = QkNorm::kWidth;
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  return spec;
}

TensorNames Olmo2Tensors() {
  TensorNames names = LlamaTensors();
  names.attention_norm.clear();
  names.mlp_norm.clear();
  names.post_attention_norm = "post_attention_layernorm";
  names.post_mlp_norm = "post_feedforward_layernorm";
  return names;
}

}  // namespace

const Family& Olmo2Family() {
  static const Family family = {
      .name = "olmo2",
      .architectures = {"Olmo2ForCausalLM"},
      .read = ReadOlmo2,
      .tensors = Olmo2Tensors(),
  };
  return family;
}

}  // namespace tandem::model
