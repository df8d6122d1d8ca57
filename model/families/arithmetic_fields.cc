#include "model/families/every_family.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

namespace tandem::model {
namespace {

struct ArithmeticField {
  const char* name;
  std::optional<double> neutral = {};  // the number that does nothing; false always does
};

// Source: the configuration_*.py of transformers' decoders.
constexpr ArithmeticField kFields[] = {
    {"_remove_final_layer_norm"},
    {"activation_function"},
    {"add_cross_attention"},
    {"alibi"},
    {"attention_bias"},
    {"attention_chunk_size"},
    {"attention_multiplier", 1},
    {"attention_out_bias"},
    {"attn_logit_softcapping"},
    {"attn_temperature_tuning"},
    {"clip_qkv"},
    {"cross_attention_layers"},
    {"dim_model_base"},
    {"do_layer_norm_before"},
    {"draft_vocab_size", 0},
    {"embedding_multiplier", 1},
    {"enable_bias"},
    {"final_logit_softcapping"},
    {"head_dim"},
    {"hidden_act"},
    {"hidden_activation"},
    {"hidden_size_per_layer_input", 0},
    {"interleaved_sliding_window"},
    {"is_encoder_decoder"},
    {"layer_norm_elementwise_affine"},
    {"layer_types"},
    {"lm_head_bias"},
    {"lm_head_multiplier", 1},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"mlp_bias"},
    {"n_routed_experts", 0},
    {"no_rope_layers"},
    {"num_experts", 0},
    {"num_key_value_heads"},
    {"num_kv_shared_layers", 0},
    {"num_local_experts", 0},
    {"parallel_attn"},
    {"partial_rotary_factor", 1},
    {"qk_layernorm"},
    {"qkv_bias"},
    {"query_pre_attn_scalar"},
    {"residual_multiplier", 1},
    {"rope_interleave"},
    {"rope_interleaved"},
    {"rope_local_base_freq"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"rotary_dim"},
    {"rotary_emb_base"},
    {"rotary_pct", 1},
    {"scale_attn_by_inverse_layer_idx"},
    {"scale_depth"},
    {"scale_emb", 1},
    {"sliding_window"},
    {"sliding_window_pattern"},
    {"use_alibi"},
    {"use_bias"},
    {"use_bidirectional_attention"},
    {"use_mup"},
    {"use_parallel_residual"},
    {"use_qk_norm"},
    {"use_qkv_bias"},
    {"use_sliding_window"},
    {"word_embed_proj_dim"},
};

bool IsNeutral(const base::JsonValue& value, const ArithmeticField& field) {
  if (value.IsArray() || value.IsObject()) return value.size() == 0;
  if (const std::optional<bool> flag = value.Bool(); flag.has_value()) return !*flag;
  return field.neutral.has_value() && value.Number() == field.neutral;
}

}  // namespace

void RefuseUnread(Fields& fields) {
  for (const std::string& name : fields.Unread()) {
    if (name == "quantization_config") {
      fields.Problem(
          name, "quantised weights are not supported: give float32, bfloat16 or float16 weights");
    }
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const ArithmeticField& f) { return f.name == name; });
    if (field == std::end(kFields) || IsNeutral(fields[name], *field)) continue;
    fields.Problem(name,
                   "not supported in this family of models; it would change what is computed");
  }
}

}  // namespace tandem::model
