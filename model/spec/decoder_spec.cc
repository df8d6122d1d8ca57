#include "model/spec/decoder_spec.h"

#include "absl/strings/str_cat.h"

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
  }
  return "unknown";
}

std::string DecoderSpec::Canonical() const {
  std::string text = absl::StrCat("vocabulary=", vocabulary_size, " context=", context_length,
                                  " hidden=", hidden_size, " ffn=", intermediate_size);
  absl::StrAppend(&text, " layers=", layers, " heads=", heads, " kv=", kv_heads,
                  " head=", head_size, " epsilon=", norm.epsilon);
  absl::StrAppend(&text, " tied=", tied_embeddings, " attention_bias=", qkv_bias,
                  " mlp_bias=", mlp_bias, " theta=", rope.theta);
  if (rope.scaling == RopeSpec::Scaling::kLlama3) {
    absl::StrAppend(&text, " llama3=", rope.factor, "/", rope.low_freq_factor, "/",
                    rope.high_freq_factor, "/", rope.original_context);
  }
  if (norm.kind != NormSpec::Kind::kRms) absl::StrAppend(&text, " norm=", NormKindName(norm.kind));
  if (qk_norm) absl::StrAppend(&text, " qk_norm=1");
  if (o_bias != qkv_bias) absl::StrAppend(&text, " o_bias=", o_bias);
  if (rope.partial_rotary_factor != 1.0) {
    absl::StrAppend(&text, " rotary=", rope.partial_rotary_factor);
  }
  if (activation != Activation::kSilu) {
    absl::StrAppend(&text, " activation=", ActivationName(activation));
  }
  if (sliding_window != 0) absl::StrAppend(&text, " window=", sliding_window);
  return text;
}

}  // namespace tandem::model
