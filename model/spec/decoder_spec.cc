#include "model/spec/decoder_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::model {

const char* NormKindName(NormSpec::Kind kind) {
  return kind == NormSpec::Kind::kRms ? "rms" : "layer";
}

const char* ActivationName(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kRelu:
      return "relu";
  }
  return "unknown";
}

const char* QkNormName(QkNorm norm) {
  if (norm == QkNorm::kNone) return "none";
  return norm == QkNorm::kHead ? "head" : "width";
}

namespace {

// What is not as in a rope without scaling, each value after a space.
void AppendScaling(const RopeSpec& rope, std::string* text) {
  switch (rope.scaling) {
    case RopeSpec::Scaling::kNone:
      break;
    case RopeSpec::Scaling::kLinear:
      absl::StrAppend(text, " linear=", rope.factor);
      break;
    case RopeSpec::Scaling::kLlama3:
      absl::StrAppend(text, " llama3=", rope.factor, "/", rope.low_freq_factor, "/",
                      rope.high_freq_factor, "/", rope.original_context);
      break;
    case RopeSpec::Scaling::kYarn:
      absl::StrAppend(text, " yarn=", rope.factor, "/", rope.beta_fast, "/", rope.beta_slow, "/",
                      rope.original_context, "/", rope.truncate, "/", rope.attention_factor);
      break;
    case RopeSpec::Scaling::kLongRope:
      absl::StrAppend(text, " longrope=", absl::StrJoin(rope.divisors, ","), "/",
                      rope.attention_factor);
      break;
  }
}

void AppendLayers(const DecoderSpec& spec, std::string* text) {
  if (spec.sliding_window != 0) absl::StrAppend(text, " window=", spec.sliding_window);
  if (spec.layer_specs.empty()) return;
  absl::StrAppend(text, " kinds=");
  for (const LayerSpec& layer : spec.layer_specs) {
    absl::StrAppend(text, layer.sliding ? "s" : "f", layer.rotated ? "" : "n");
  }
}

}  // namespace

int DecoderSpec::window(int layer) const {
  return layer_specs.empty() || layer_specs[layer].sliding ? sliding_window : 0;
}

const RopeSpec* DecoderSpec::layer_rope(int layer) const {
  if (learned_positions) return nullptr;
  if (!layer_specs.empty() && !layer_specs[layer].rotated) return nullptr;
  const bool slides = window(layer) != 0;
  return slides && sliding_rope.has_value() ? &*sliding_rope : &rope;
}

std::string DecoderSpec::Canonical() const {
  std::string text = absl::StrCat("vocabulary=", vocabulary_size, " context=", context_length,
                                  " hidden=", hidden_size, " ffn=", intermediate_size);
  absl::StrAppend(&text, " layers=", layers, " heads=", heads, " kv=", kv_heads,
                  " head=", head_size, " epsilon=", norm.epsilon);
  absl::StrAppend(&text, " tied=", tied_embeddings, " attention_bias=", qkv_bias,
                  " mlp_bias=", mlp_bias, " theta=", rope.theta);
  AppendScaling(rope, &text);
  if (norm.kind != NormSpec::Kind::kRms) absl::StrAppend(&text, " norm=", NormKindName(norm.kind));
  if (norm.plus_one) absl::StrAppend(&text, " plus_one=1");
  if (!pre_norm) absl::StrAppend(&text, " pre_norm=0");
  if (post_norm) absl::StrAppend(&text, " post_norm=1");
  if (parallel_residual) absl::StrAppend(&text, " parallel=1");
  if (qk_norm != QkNorm::kNone) absl::StrAppend(&text, " qk_norm=", QkNormName(qk_norm));
  if (o_bias != qkv_bias) absl::StrAppend(&text, " o_bias=", o_bias);
  if (rope.partial_rotary_factor != 1.0) {
    absl::StrAppend(&text, " rotary=", rope.partial_rotary_factor);
  }
  if (activation != Activation::kSilu) {
    absl::StrAppend(&text, " activation=", ActivationName(activation));
  }
  if (!gated_mlp) absl::StrAppend(&text, " gated=0");
  AppendLayers(*this, &text);
  if (sliding_rope.has_value()) {
    absl::StrAppend(&text, " sliding_theta=", sliding_rope->theta,
                    " sliding_rotary=", sliding_rope->partial_rotary_factor);
    AppendScaling(*sliding_rope, &text);
  }
  if (learned_positions) absl::StrAppend(&text, " positions=", position_offset);
  if (embedding_scale != 1.0) absl::StrAppend(&text, " embedding_scale=", embedding_scale);
  if (residual_scale != 1.0) absl::StrAppend(&text, " residual_scale=", residual_scale);
  if (attention_scale != 0.0) absl::StrAppend(&text, " attention_scale=", attention_scale);
  if (logit_scale != 1.0) absl::StrAppend(&text, " logit_scale=", logit_scale);
  if (draft_vocabulary_size != 0) absl::StrAppend(&text, " draft=", draft_vocabulary_size);
  return text;
}

}  // namespace tandem::model
