// The text of Gemma 3, alone and in its wrapper with images. Source of the arithmetic:
// transformers, models/gemma3.
#include "model/families/families.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

// As transformers has them where config.json, a wrapper's above all, says nothing.
DecoderSpec Defaults() {
  DecoderSpec spec;
  spec.vocabulary_size = 262208;
  spec.context_length = 131072;
  spec.hidden_size = 2304;
  spec.intermediate_size = 9216;
  spec.layers = 26;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 256;
  spec.tied_embeddings = true;
  return spec;
}

// Layers that see all are rotated by one rope, those that slide by another: as transformers 5
// writes them, or as version 4 did.
void ReadRopes(Fields& fields, DecoderSpec& spec) {
  RopeSpec global;
  RopeSpec local;
  global.theta = fields.Positive("rope_theta", false, 1e6);
  local.theta = fields.Positive("rope_local_base_freq", false, 1e4);
  std::optional<Fields> both = fields.Object("rope_parameters");
  for (const char* type : {"full_attention", "sliding_attention"}) {
    const bool full = type == std::string("full_attention");
    RopeSpec& rope = full ? global : local;
    std::optional<Fields> object = both.has_value() ? both->Object(type) : std::nullopt;
    std::optional<Fields> scaling = full ? fields.Object("rope_scaling") : std::nullopt;
    if (object.has_value()) {
      rope = ReadRopeObject(*object, fields, spec, {}, rope);
    } else if (scaling.has_value()) {
      rope = ReadRopeObject(*scaling, fields, spec, {}, rope);
    }
  }
  if (both.has_value()) {
    for (const std::string& name : both->Unread()) {
      both->Problem(name, "supported: full_attention, sliding_attention");
    }
  }
  spec.rope = global;
  spec.sliding_rope = local;
}

DecoderSpec ReadGemma3(Fields& fields) {
  DecoderSpec spec = ReadCommonFields(fields, Defaults());
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.norm.plus_one = true;
  spec.post_norm = true;
  spec.qk_norm = QkNorm::kHead;
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.activation =
      ReadActivation(fields, "hidden_activation", "gelu_pytorch_tanh", {"gelu_pytorch_tanh"});
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_size));
  spec.attention_scale = 1 / std::sqrt(fields.Positive("query_pre_attn_scalar", false, 256));
  ReadRopes(fields, spec);
  const int window = fields.Int("sliding_window", false, 4096);
  const int pattern = fields.Int("sliding_window_pattern", false, 6);
  std::optional<std::vector<LayerSpec>> layers = ReadLayerTypes(fields, spec);
  if (!layers.has_value()) {
    layers.emplace(spec.layers);
    for (int i = 0; i < spec.layers; ++i) (*layers)[i].sliding = (i + 1) % pattern != 0;
  }
  spec.sliding_window = window;
  spec.layer_specs = *std::move(layers);
  return spec;
}

TensorNames Gemma3Tensors() {
  TensorNames names = LlamaTensors();
  names.post_attention_norm = "post_attention_layernorm";
  names.mlp_norm = "pre_feedforward_layernorm";
  names.post_mlp_norm = "post_feedforward_layernorm";
  // Of the wrapper.
  names.ignored_prefixes = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                            "model.multi_modal_projector."};
  return names;
}

}  // namespace

const Family& Gemma3Family() {
  static const Family family = {
      .name = "gemma3_text",
      .other_model_types = {"gemma3"},
      .architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
      .read = ReadGemma3,
      .tensors = Gemma3Tensors(),
  };
  return family;
}

}  // namespace tandem::model
