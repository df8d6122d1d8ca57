#include "model/families/common_fields.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace tandem::model {
namespace {

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

}  // namespace

DecoderSpec ReadCommonFields(Fields& fields, const DecoderSpec& defaults) {
  DecoderSpec spec = defaults;
  if (fields.Has("quantization_config")) {
    fields.Problem("quantization_config",
                   "quantised weights are not supported: give float32, "
                   "bfloat16 or float16 weights");
  }
  spec.vocabulary_size = fields.Int("vocab_size", true, 1);
  spec.context_length = fields.Int("max_position_embeddings", true, 1);
  spec.hidden_size = fields.Int("hidden_size", true, 2);
  spec.intermediate_size = fields.Int("intermediate_size", true, 1);
  spec.layers = fields.Int("num_hidden_layers", true, 1, 4096);
  spec.heads = fields.Int("num_attention_heads", true, 1, 4096);
  const int kv_heads = defaults.kv_heads > 0 ? defaults.kv_heads : spec.heads;
  spec.kv_heads = fields.Int("num_key_value_heads", false, kv_heads, 4096);
  const bool head_size_given = fields.Has("head_dim") || defaults.head_size > 0;
  const int head_size = defaults.head_size > 0 ? defaults.head_size : spec.hidden_size / spec.heads;
  spec.head_size = fields.Int("head_dim", false, head_size, 4096);
  spec.tied_embeddings = fields.Bool("tie_word_embeddings", defaults.tied_embeddings);
  CheckShape(spec, head_size_given, fields);
  return spec;
}

RopeSpec ReadRope(Fields& fields) {
  RopeSpec rope;
  rope.theta = fields.Positive("rope_theta", false, rope.theta);
  rope.partial_rotary_factor =
      fields.Positive("partial_rotary_factor", false, rope.partial_rotary_factor);
  const char* name = fields.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!fields.Has(name)) return rope;
  std::optional<Fields> nested = fields.Object(name);
  if (!nested.has_value()) return rope;
  rope.theta = nested->Positive("rope_theta", false, rope.theta);
  rope.partial_rotary_factor =
      nested->Positive("partial_rotary_factor", false, rope.partial_rotary_factor);
  const std::string type = nested->Text("rope_type", false, nested->Text("type", false, "default"));
  if (type == "default") return rope;
  if (type != "llama3") {
    nested->Problem(nested->Has("rope_type") ? "rope_type" : "type", "supported: default, llama3");
    return rope;
  }
  rope.scaling = RopeSpec::Scaling::kLlama3;
  rope.factor = nested->Positive("factor", true, 1.0);
  rope.low_freq_factor = nested->Positive("low_freq_factor", true, 1.0);
  rope.high_freq_factor = nested->Positive("high_freq_factor", true, 4.0);
  rope.original_context = nested->Int("original_max_position_embeddings", true, 1);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    nested->Problem("high_freq_factor", "must be above low_freq_factor");
  }
  return rope;
}

}  // namespace tandem::model
