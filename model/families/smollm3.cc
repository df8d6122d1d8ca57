// SmolLM3: a Llama, some of whose layers are not rotated (NoPE). SmolLM2 is of the family of Llama.
#include "model/families/families.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/families/common_fields.h"

namespace tandem::model {
namespace {

// no_rope_layers has a 1 for each layer that is rotated; without it every
// no_rope_layer_interval-th is not.
void ReadRotatedLayers(Fields& fields, DecoderSpec& spec) {
  const int interval = fields.Int("no_rope_layer_interval", false, 4);
  const std::vector<base::JsonValue> flags = fields["no_rope_layers"].Elements();
  const bool given = fields.Has("no_rope_layers");
  if (given && static_cast<int>(flags.size()) != spec.layers) {
    fields.Problem("no_rope_layers",
                   absl::StrCat("must have num_hidden_layers (", spec.layers, ") numbers"));
    return;
  }
  for (int i = 0; i < spec.layers; ++i) {
    spec.layer_specs[i].rotated =
        given ? flags[i].Integer().value_or(1) != 0 : (i + 1) % interval != 0;
  }
}

DecoderSpec ReadSmollm3(Fields& fields) {
  DecoderSpec defaults;
  defaults.kv_heads = fields.IsNull("num_key_value_heads") ? 0 : 4;
  defaults.tied_embeddings = true;
  DecoderSpec spec = ReadCommonFields(fields, defaults);
  spec.norm.epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  spec.qkv_bias = fields.Bool("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.mlp_bias = fields.Bool("mlp_bias", false);
  spec.rope = ReadRope(fields, spec, {.theta = 2e6});
  spec.activation = ReadActivation(fields, "hidden_act", "silu", {"silu"});
  const std::optional<std::vector<LayerSpec>> types = ReadLayerTypes(fields, spec);
  const bool slides = fields.Bool("use_sliding_window", false) && fields.Has("sliding_window");
  const int window = fields.Int("sliding_window", false, 1);
  spec.layer_specs = slides && types.has_value() ? *types : std::vector<LayerSpec>(spec.layers);
  ReadRotatedLayers(fields, spec);
  if (!slides) return spec;
  spec.sliding_window = window;
  if (types.has_value()) return spec;
  for (LayerSpec& layer : spec.layer_specs) layer.sliding = !layer.rotated;
  return spec;
}

}  // namespace

const Family& Smollm3Family() {
  static const Family family = {
      .name = "smollm3",
      .architectures = {"SmolLM3ForCausalLM"},
      .read = ReadSmollm3,
      .tensors = LlamaTensors(),
  };
  return family;
}

}  // namespace tandem::model
