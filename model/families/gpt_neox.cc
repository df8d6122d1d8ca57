// GPT-NeoX and Pythia: attention and MLP in parallel, a rotation of a share of each head.
#include "model/families/families.h"

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadGptNeox(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, {});
  if (spec.kv_heads != spec.heads) {
    fields.Problem("num_key_value_heads", "supported: num_attention_heads");
  }
  spec.norm.kind = NormSpec::Kind::kLayer;
  spec.norm.epsilon = fields.Positive("layer_norm_eps", false, 1e-5);
  spec.parallel_residual = fields.Bool("use_parallel_residual", true);
  spec.qkv_bias = fields.Bool("attention_bias", true);
  spec.o_bias = spec.qkv_bias;
  spec.mlp_bias = true;
  spec.gated_mlp = false;
  spec.activation = ReadActivation(fields, "hidden_act", "gelu",
                                   {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu"});
  spec.rope = ReadRope(fields, spec,
                       {.theta = fields.Positive("rotary_emb_base", false, 10000.0),
                        .partial_rotary_factor = fields.Positive("rotary_pct", false, 0.25)});
  return spec;
}

}  // namespace

const Family& GptNeoxFamily() {
  static const Family family = {
      .name = "gpt_neox",
      .architectures = {"GPTNeoXForCausalLM"},
      .read = ReadGptNeox,
      .tensors =
          {
              .embedding = "gpt_neox.embed_in",
              .layers = "gpt_neox.layers",
              .attention_norm = "input_layernorm",
              .qkv = "attention.query_key_value",
              .o = "attention.dense",
              .mlp_norm = "post_attention_layernorm",
              .up = "mlp.dense_h_to_4h",
              .down = "mlp.dense_4h_to_h",
              .final_norm = "gpt_neox.final_layer_norm",
              .output = "embed_out",
              .other_output = "lm_head",
              .fused_qkv = FusedQkv::kByHead,
              .prefixes = {{"gpt_neox.", "", ""}},
              .ignored = {"rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"},
          },
  };
  return family;
}

}  // namespace tandem::model
