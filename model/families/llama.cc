#include "model/families/llama.h"

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
  spec.rope = ReadRope(fields);
  spec.activation = Activation::kSilu;
  if (fields.Text("hidden_act", false, "silu") != "silu") {
    fields.Problem("hidden_act", "supported: silu");
  }
  if (fields.Has("sliding_window")) fields.Problem("sliding_window", "supported: null");
  return spec;
}

}  // namespace

const Family& LlamaFamily() {
  static const Family family = {
      .name = "llama",
      .architectures = {"LlamaForCausalLM"},
      .read = ReadLlama,
      .tensors =
          {
              .embedding = "model.embed_tokens",
              .layers = "model.layers",
              .attention_norm = "input_layernorm",
              .q = "self_attn.q_proj",
              .k = "self_attn.k_proj",
              .v = "self_attn.v_proj",
              .o = "self_attn.o_proj",
              .mlp_norm = "post_attention_layernorm",
              .gate = "mlp.gate_proj",
              .up = "mlp.up_proj",
              .down = "mlp.down_proj",
              .final_norm = "model.norm",
              .output = "lm_head",
              .ignored = {"rotary_emb.inv_freq"},  // old checkpoints; RopeSpec says the same
          },
  };
  return family;
}

}  // namespace tandem::model
