// Phi-3, Phi-3.5 and Phi-4-mini without experts: fused projections, a longrope, and in Phi-4-mini a
// rotation of a share of each head.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadPhi3(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, {});
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-5);
  spec.rope = ReadRope(
      fields, spec, {.partial_rotary_factor = 1.0, .longrope_names = {"longrope", "su", "yarn"}});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  if (fields.Has("sliding_window")) spec.sliding_window = fields.Int("sliding_window", false, 1);
  return spec;
}

TensorNames Phi3Tensors() {
  TensorNames names = LlamaTensors();
  names.fused_qkv = FusedQkv::kParts;
  names.qkv = "self_attn.qkv_proj";
  names.gate_up = "mlp.gate_up_proj";
  return names;
}

}  // namespace

const Family& Phi3Family() {
  static const Family family = {
      .name = "phi3",
      .architectures = {"Phi3ForCausalLM"},
      .read = ReadPhi3,
      .tensors = Phi3Tensors(),
  };
  return family;
}

}  // namespace tandem::model
