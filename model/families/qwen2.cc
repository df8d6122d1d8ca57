// Qwen2 and Qwen2.5: a Llama whose q, k and v have biases.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadQwen2(Fields& fields) {
  DecoderSpec defaults;
  defaults.kv_heads = fields.IsNull("num_key_value_heads") ? 0 : 32;
  DecoderSpec spec = ReadCommonFields(fields, defaults);
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.qkv_bias = true;
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  ReadUsedWindow(fields, spec);
  return spec;
}

}  // namespace

const Family& Qwen2Family() {
  static const Family family = {
      .name = "qwen2",
      .architectures = {"Qwen2ForCausalLM"},
      .read = ReadQwen2,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
