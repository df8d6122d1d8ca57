// OPT from 125M to 66B, without 350M, which norms afterwards and has narrower embeddings.
#include "model/families/families.h"

#include "absl/strings/str_cat.h"
#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

// Fields that OPT-350M alone has otherwise.
void RefuseOthers(Fields& fields, const DecoderSpec& spec) {
  if (!fields.Bool("do_layer_norm_before", true)) {
    fields.Problem("do_layer_norm_before", "supported: true (OPT-350M is the one that has false)");
  }
  if (fields.Int("word_embed_proj_dim", false, spec.hidden_size) != spec.hidden_size) {
    fields.Problem("word_embed_proj_dim",
                   absl::StrCat("supported: hidden_size (", spec.hidden_size, ")"));
  }
  if (fields.Bool("_remove_final_layer_norm", false)) {
    fields.Problem("_remove_final_layer_norm", "supported: false");
  }
  if (!fields.Bool("layer_norm_elementwise_affine", true)) {
    fields.Problem("layer_norm_elementwise_affine", "supported: true");
  }
}

DecoderSpec ReadOpt(Fields& fields) {
  DecoderSpec defaults;
  defaults.tied_embeddings = true;
  // It calls its MLP's size otherwise.
  defaults.intermediate_size = fields.Int("ffn_dim", true, 1);
  DecoderSpec spec = ReadCommonFields(fields, defaults);
  spec.norm.kind = NormSpec::Kind::kLayer;
  spec.norm.epsilon = 1e-5;
  spec.qkv_bias = fields.Bool("enable_bias", true);
  spec.o_bias = spec.mlp_bias = spec.qkv_bias;
  spec.learned_positions = true;
  spec.position_offset = 2;
  spec.gated_mlp = false;
  spec.activation =
      ReadActivation(fields, "activation_function", "relu", {"relu", "gelu", "gelu_new"});
  RefuseOthers(fields, spec);
  return spec;
}

}  // namespace

const Family& OptFamily() {
  static const Family family = {
      .name = "opt",
      .architectures = {"OPTForCausalLM"},
      .read = ReadOpt,
      .tensors =
          {
              .embedding = "model.decoder.embed_tokens",
              .positions = "model.decoder.embed_positions",
              .layers = "model.decoder.layers",
              .attention_norm = "self_attn_layer_norm",
              .q = "self_attn.q_proj",
              .k = "self_attn.k_proj",
              .v = "self_attn.v_proj",
              .o = "self_attn.out_proj",
              .mlp_norm = "final_layer_norm",
              .up = "fc1",
              .down = "fc2",
              .final_norm = "model.decoder.final_layer_norm",
              .output = "lm_head",
              .prefixes = {{"model.", "", ""}},
          },
  };
  return family;
}

}  // namespace tandem::model
