// What a decoder-only transformer computes, whatever family it is of: sizes, and a choice for each
// place where families differ. The reader of a family (families/) makes it from config.json;
// Decoder (decoder.h) computes it, or refuses by name what it does not compute.
//
// A decoder embeds each token as x [hidden_size] and runs its layers. A layer is
//   x += o(attention(q, k, v))  where q, k, v are linear in norm(x); q and k are rotated (rope)
//   x += down(activation(gate(y)) · up(y))  where y = norm(x)
// The logits are linear in the norm of the last x.
#pragma once

#include <string>

namespace tandem::model {

struct NormSpec {
  enum class Kind {
    kRms,    // weight · x / sqrt(mean(x²) + epsilon)
    kLayer,  // weight · (x - mean(x)) / sqrt(variance(x) + epsilon) + bias
  };
  Kind kind = Kind::kRms;
  double epsilon = 1e-6;
};

// Rotary position embedding.
struct RopeSpec {
  enum class Scaling {
    kNone,
    kLlama3,  // Llama 3.1's long context: low frequencies are divided by `factor`
  };
  double theta = 10000.0;              // base of the frequencies
  double partial_rotary_factor = 1.0;  // share of a head's elements that rotates, the first ones
  Scaling scaling = Scaling::kNone;
  // The rest is for kLlama3, named as in config.json.
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int original_context = 0;  // positions
};

// Of the gate.
enum class Activation {
  kSilu,      // x · sigmoid(x)
  kGelu,      // by the error function
  kGeluTanh,  // GELU's approximation by tanh
};

// "rms", "layer"; "silu", "gelu", "gelu_tanh".
const char* NormKindName(NormSpec::Kind kind);
const char* ActivationName(Activation activation);

// Thread safety: a plain value.
struct DecoderSpec {
  int vocabulary_size = 0;
  int context_length = 0;  // positions that the model was made for
  int layers = 0;
  int hidden_size = 0;
  int intermediate_size = 0;  // of the MLP
  int heads = 0;              // of queries; a multiple of kv_heads
  int kv_heads = 0;           // of keys and values; heads / kv_heads queries share one
  int head_size = 0;          // even

  NormSpec norm;         // before attention, before the MLP, and before the logits
  bool qk_norm = false;  // a norm over each head of q and k, before they are rotated
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;  // of gate, up and down
  RopeSpec rope;
  Activation activation = Activation::kSilu;
  int sliding_window = 0;  // a token sees so many positions, its own the last; 0: all before it
  bool tied_embeddings = false;  // the logits' matrix is the embeddings'

  int q_size() const { return heads * head_size; }
  int kv_size() const { return kv_heads * head_size; }

  // All values in a fixed spelling, for content ids: equal texts, equal functions of the weights. A
  // field that is added later may show only where it differs from its default, so that the ids of
  // models stay as they are.
  std::string Canonical() const;
};

}  // namespace tandem::model
