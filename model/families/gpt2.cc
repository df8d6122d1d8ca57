// GPT-2: learned positions, layer norms, an MLP without a gate, transposed matrices.
#include "model/families/families.h"

#include "absl/strings/str_cat.h"
#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

DecoderSpec ReadGpt2(Fields& fields) {
  DecoderSpec spec;
  spec.vocabulary_size = fields.Int("vocab_size", false, 50257);
  spec.context_length = fields.Int("n_positions", false, 1024);
  spec.hidden_size = fields.Int("n_embd", false, 768);
  spec.intermediate_size = fields.Int("n_inner", false, 4 * spec.hidden_size);
  spec.layers = fields.Int("n_layer", false, 12, 4096);
  spec.heads = fields.Int("n_head", false, 12, 4096);
  spec.kv_heads = spec.heads;
  spec.head_size = spec.hidden_size / spec.heads;
  if (spec.hidden_size % spec.heads != 0) {
    fields.Problem("n_head", absl::StrCat("must divide n_embd (", spec.hidden_size, ")"));
  } else if (spec.head_size % 2 != 0) {
    fields.Problem("n_head", absl::StrCat("makes heads of ", spec.head_size,
                                          ", and the size of a head must be even"));
  }
  spec.tied_embeddings = fields.Bool("tie_word_embeddings", true);
  spec.norm.kind = NormSpec::Kind::kLayer;
  spec.norm.epsilon = fields.Positive("layer_norm_epsilon", false, 1e-5);
  spec.qkv_bias = spec.o_bias = spec.mlp_bias = true;
  spec.learned_positions = true;
  spec.gated_mlp = false;
  spec.activation = ReadActivation(fields, "activation_function", "gelu_new",
                                   {"gelu_new", "gelu_pytorch_tanh", "gelu", "relu", "silu"});
  if (!fields.Bool("scale_attn_weights", true)) spec.attention_scale = 1.0;
  return spec;
}

}  // namespace

const Family& Gpt2Family() {
  static const Family family = {
      .name = "gpt2",
      .architectures = {"GPT2LMHeadModel"},
      .read = ReadGpt2,
      .tensors =
          {
              .embedding = "transformer.wte",
              .positions = "transformer.wpe",
              .layers = "transformer.h",
              .attention_norm = "ln_1",
              .qkv = "attn.c_attn",
              .o = "attn.c_proj",
              .mlp_norm = "ln_2",
              .up = "mlp.c_fc",
              .down = "mlp.c_proj",
              .final_norm = "transformer.ln_f",
              .output = "lm_head",
              .fused_qkv = FusedQkv::kParts,
              .transposed = true,
              .prefixes = {{"transformer.", "", ""}},
              .ignored = {".attn.bias", ".attn.masked_bias"},  // masks
          },
  };
  return family;
}

}  // namespace tandem::model
