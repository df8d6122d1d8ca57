#include "model/families/common_fields.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::model {
namespace {

// From what config.json says of a scaling to the numbers of a RopeSpec.
class ScalingReader {
 public:
  ScalingReader(Fields& object, Fields& fields, const DecoderSpec& spec, RopeSpec& rope)
      : object_(object), fields_(fields), spec_(spec), rope_(rope) {}

  void Linear() {
    rope_.scaling = RopeSpec::Scaling::kLinear;
    rope_.factor = object_.Positive("factor", true, 1.0);
  }

  void Dynamic() {
    object_.Positive("factor", true, 1.0);
    object_.Int("original_max_position_embeddings", false, 1);
  }

  void Llama3() {
    rope_.scaling = RopeSpec::Scaling::kLlama3;
    rope_.factor = object_.Positive("factor", true, 1.0);
    rope_.low_freq_factor = object_.Positive("low_freq_factor", true, 1.0);
    rope_.high_freq_factor = object_.Positive("high_freq_factor", true, 4.0);
    rope_.original_context = object_.Int("original_max_position_embeddings", true, 1);
    if (rope_.high_freq_factor <= rope_.low_freq_factor) {
      object_.Problem("high_freq_factor", "must be above low_freq_factor");
    }
  }

  void Yarn() {
    rope_.scaling = RopeSpec::Scaling::kYarn;
    rope_.original_context = OriginalContext();
    rope_.factor = object_.Positive("factor", false, Stretch());
    if (rope_.factor < 1) object_.Problem("factor", "must be at least 1");
    if (rope_.theta <= 1) fields_.Problem("rope_theta", "must be above 1 with a yarn rope");
    rope_.beta_fast = object_.Positive("beta_fast", false, 32);
    rope_.beta_slow = object_.Positive("beta_slow", false, 1);
    rope_.truncate = object_.Bool("truncate", true);
    auto mscale = [](double factor, double times) {
      return factor <= 1 ? 1.0 : 0.1 * times * std::log(factor) + 1.0;
    };
    double attention = mscale(rope_.factor, 1);
    if (object_.Has("mscale") && object_.Has("mscale_all_dim")) {
      attention = mscale(rope_.factor, object_.Positive("mscale", true, 1)) /
                  mscale(rope_.factor, object_.Positive("mscale_all_dim", true, 1));
    }
    rope_.attention_factor = object_.Positive("attention_factor", false, attention);
  }

  void LongRope() {
    rope_.scaling = RopeSpec::Scaling::kLongRope;
    const int original = OriginalContext();
    const double factor = object_.Positive("factor", false, Stretch());
    const double attention =
        factor <= 1 || original < 2 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
    rope_.attention_factor = object_.Positive("attention_factor", false, attention);
    const int pairs = rope_.rotary_size(spec_.head_size) / 2;
    for (const char* name : {"short_factor", "long_factor"}) {
      std::vector<double> divisors = object_.Positives(name, true);
      if (object_.Has(name) && static_cast<int>(divisors.size()) != pairs) {
        object_.Problem(name, absl::StrCat("must have ", pairs, " numbers, one for each pair"));
      }
      const bool is_long = name == std::string("long_factor");
      if (is_long == (spec_.context_length > original)) rope_.divisors = std::move(divisors);
    }
  }

 private:
  // Beside the rope's own fields, or among config.json's.
  int OriginalContext() {
    constexpr char kName[] = "original_max_position_embeddings";
    const bool outside = !object_.Has(kName) && fields_.Has(kName);
    return (outside ? fields_ : object_).Int(kName, true, 1);
  }
  double Stretch() {
    return static_cast<double>(spec_.context_length) / std::max(1, OriginalContext());
  }

  Fields& object_;
  Fields& fields_;
  const DecoderSpec& spec_;
  RopeSpec& rope_;
};

}  // namespace

void CheckShape(const DecoderSpec& spec, bool head_size_given, Fields& fields) {
  if (spec.heads % spec.kv_heads != 0) {
    fields.Problem("num_key_value_heads",
                   absl::StrCat("must divide num_attention_heads (", spec.heads, ")"));
  }
  if (!head_size_given && spec.hidden_size % spec.heads != 0) {
    fields.Problem("num_attention_heads",
                   absl::StrCat("must divide hidden_size (", spec.hidden_size,
                                ") where head_dim is not given"));
  } else if (spec.head_size % 2 != 0) {
    fields.Problem("head_dim",
                   absl::StrCat("the size of a head must be even, and is ", spec.head_size));
  }
}

DecoderSpec ReadCommonFields(Fields& fields, const DecoderSpec& defaults) {
  DecoderSpec spec = defaults;
  auto read = [&fields](const char* name, int fallback, int min, int max) {
    const bool required = fallback == 0;
    return fields.Int(name, required, required ? min : fallback, max);
  };
  constexpr int kMax = 1 << 24;
  spec.vocabulary_size = read("vocab_size", defaults.vocabulary_size, 1, kMax);
  spec.context_length = read("max_position_embeddings", defaults.context_length, 1, kMax);
  spec.hidden_size = read("hidden_size", defaults.hidden_size, 2, kMax);
  spec.intermediate_size = read("intermediate_size", defaults.intermediate_size, 1, kMax);
  spec.layers = read("num_hidden_layers", defaults.layers, 1, 4096);
  spec.heads = read("num_attention_heads", defaults.heads, 1, 4096);
  const int kv_heads = defaults.kv_heads > 0 ? defaults.kv_heads : spec.heads;
  spec.kv_heads = fields.Int("num_key_value_heads", false, kv_heads, 4096);
  const bool head_size_given = fields.Has("head_dim") || defaults.head_size > 0;
  const int head_size = defaults.head_size > 0 ? defaults.head_size : spec.hidden_size / spec.heads;
  spec.head_size = fields.Int("head_dim", false, head_size, 4096);
  spec.tied_embeddings = fields.Bool("tie_word_embeddings", defaults.tied_embeddings);
  if (fields.Has("draft_vocab_size")) {
    spec.draft_vocabulary_size = fields.Int("draft_vocab_size", true, 1, spec.vocabulary_size);
    if (spec.tied_embeddings) {
      fields.Problem(
          "tie_word_embeddings",
          "must be false where draft_vocab_size is given: the output has rows of its own");
    }
  }
  CheckShape(spec, head_size_given, fields);
  return spec;
}

RopeSpec ReadRope(Fields& fields, const DecoderSpec& spec, const RopeDefaults& defaults) {
  RopeSpec rope;
  rope.theta = fields.Positive("rope_theta", false, defaults.theta);
  if (defaults.partial_rotary_factor.has_value()) {
    rope.partial_rotary_factor =
        fields.Positive("partial_rotary_factor", false, *defaults.partial_rotary_factor);
  }
  const char* name = fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  std::optional<Fields> object = fields.Object(name);
  if (object.has_value()) return ReadRopeObject(*object, fields, spec, defaults, rope);
  std::vector<std::string> ignored;
  Fields none(base::JsonValue(), "", ignored);
  return ReadRopeObject(none, fields, spec, defaults, rope);
}

RopeSpec ReadRopeObject(Fields& object, Fields& fields, const DecoderSpec& spec,
                        const RopeDefaults& defaults, RopeSpec rope) {
  rope.theta = object.Positive("rope_theta", false, rope.theta);
  if (defaults.partial_rotary_factor.has_value()) {
    rope.partial_rotary_factor =
        object.Positive("partial_rotary_factor", false, rope.partial_rotary_factor);
    const int size = rope.rotary_size(spec.head_size);
    if (size < 2 || size > spec.head_size || size % 2 != 0) {
      const bool inside = object.Has("partial_rotary_factor");
      (inside ? object : fields)
          .Problem("partial_rotary_factor",
                   absl::StrCat("makes ", size, " of a head's ", spec.head_size,
                                " elements rotate; it must be an even number from 2 to all"));
      rope.partial_rotary_factor = 1.0;
    }
  }
  const std::string old_type = object.Text("type", false, "default");
  const std::string type = object.Text("rope_type", false, old_type);
  const auto& longrope = defaults.longrope_names;
  ScalingReader reader(object, fields, spec, rope);
  // What is written beside a default rope does nothing in transformers either.
  if (type == "default") return rope;
  if (std::find(longrope.begin(), longrope.end(), type) != longrope.end()) {
    reader.LongRope();
  } else if (type == "linear") {
    reader.Linear();
  } else if (type == "dynamic") {
    reader.Dynamic();
  } else if (type == "llama3") {
    reader.Llama3();
  } else if (type == "yarn") {
    reader.Yarn();
  } else {
    object.Problem(object.Has("rope_type") ? "rope_type" : "type",
                   "supported: default, linear, dynamic, llama3, yarn, longrope");
    return rope;
  }
  for (const std::string& unread : object.Unread()) {
    // It says where a model comes from.
    if (unread != "finetuned") object.Problem(unread, "not supported with this rope_type");
  }
  return rope;
}

Activation ReadActivation(Fields& fields, const char* field, const std::string& fallback,
                          const std::vector<std::string>& supported) {
  static const std::map<std::string, Activation> names = {
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
      {"gelu", Activation::kGelu},          {"gelu_new", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"relu", Activation::kRelu},
  };
  const std::string name = fields.Text(field, false, fallback);
  const bool known = std::find(supported.begin(), supported.end(), name) != supported.end();
  if (known) return names.at(name);
  fields.Problem(field, absl::StrCat("supported: ", absl::StrJoin(supported, ", ")));
  return Activation::kSilu;
}

std::optional<std::vector<LayerSpec>> ReadLayerTypes(Fields& fields, const DecoderSpec& spec) {
  if (!fields.Has("layer_types")) return std::nullopt;
  std::vector<LayerSpec> layers;
  bool known = true;
  for (const std::string& type : fields.Texts("layer_types")) {
    known = known && (type == "sliding_attention" || type == "full_attention");
    layers.push_back({.sliding = type == "sliding_attention"});
  }
  if (!known || static_cast<int>(layers.size()) != spec.layers) {
    fields.Problem("layer_types", absl::StrCat("must be full_attention or sliding_attention for "
                                               "each of num_hidden_layers (",
                                               spec.layers, ")"));
    layers.assign(spec.layers, {});
  }
  return layers;
}

void ReadUsedWindow(Fields& fields, DecoderSpec& spec) {
  const bool used = fields.Bool("use_sliding_window", false);
  const int window = fields.Int("sliding_window", false, 4096);
  std::optional<std::vector<LayerSpec>> layers = ReadLayerTypes(fields, spec);
  // The number of layers may be 0 here, which Int does not read.
  const int64_t from = fields["max_window_layers"].Integer().value_or(28);
  if (!used || fields.IsNull("sliding_window")) return;
  if (!layers.has_value()) {
    layers.emplace(spec.layers);
    for (int64_t i = std::max<int64_t>(from, 0); i < spec.layers; ++i) (*layers)[i].sliding = true;
  }
  spec.sliding_window = window;
  spec.layer_specs = *std::move(layers);
}

TensorNames LlamaTensors() {
  return {
      .embedding = "model.embed_tokens",
      .layers = "model.layers",
      .attention_norm = "input_layernorm",
      .q = "self_attn.q_proj",
      .k = "self_attn.k_proj",
      .v = "self_attn.v_proj",
      .q_norm = "self_attn.q_norm",
      .k_norm = "self_attn.k_norm",
      .o = "self_attn.o_proj",
      .mlp_norm = "post_attention_layernorm",
      .gate = "mlp.gate_proj",
      .up = "mlp.up_proj",
      .down = "mlp.down_proj",
      .final_norm = "model.norm",
      .output = "lm_head",
      .prefixes = {{"model.", "language_model.model.", "language_model."},
                   {"model.", "model.language_model.", ""},
                   {"model.", "", ""}},
      .ignored = {"rotary_emb.inv_freq"},  // old checkpoints; RopeSpec says the same
  };
}

}  // namespace tandem::model
