// Mistral 7B and its kin: a Llama with a head size of its own and, in the first version, a window.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadMistral(Fields& fields) {
  DecoderSpec defaults;
  defaults.kv_heads = fields.IsNull("num_key_value_heads") ? 0 : 8;
  DecoderSpec spec = ReadCommonFields(fields, defaults);
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.rope = ReadRope(fields, spec, {});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  // Without the field there is a window; null is none.
  const int window = fields.Int("sliding_window", false, 4096);
  spec.sliding_window = fields.IsNull("sliding_window") ? 0 : window;
  return spec;
}

}  // namespace

const Family& MistralFamily() {
  static const Family family = {
      .name = "mistral",
      .architectures = {"MistralForCausalLM"},
      .read = ReadMistral,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
