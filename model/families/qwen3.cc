// Qwen3 without experts: norms of q and k over each head, a head size of its own.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadQwen3(Fields& fields) {
  DecoderSpec defaults;
  defaults.kv_heads = fields.IsNull("num_key_value_heads") ? 0 : 32;
  defaults.head_size = 128;
  DecoderSpec spec = ReadCommonFields(fields, defaults);
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.qk_norm = QkNorm::kHead;
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  ReadUsedWindow(fields, spec);
  return spec;
}

}  // namespace

const Family& Qwen3Family() {
  static const Family family = {
      .name = "qwen3",
      .architectures = {"Qwen3ForCausalLM"},
      .read = ReadQwen3,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
