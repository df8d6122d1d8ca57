// What a decoder-only transformer computes, whatever family it is of: sizes, and a choice for each
// place where families differ. The reader of a family (families/) makes it from config.json;
// Decoder (decoder.h) computes it, or refuses by name what it does not compute.
//
// A decoder embeds each token as x [hidden_size] and runs its layers. A layer is
//   x += o(attention(q, k, v))  where q, k, v are linear in norm(x); q and k are rotated (rope)
//   x += down(activation(gate(y)) · up(y))  where y = norm(x)
// The logits are linear in the norm of the last x. The fields below say where a family differs.
//
// This is plain data, and every engine reads it. An engine names what it does not compute.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tandem::model {

struct NormSpec {
  enum class Kind {
    kRms,    // weight · x / sqrt(mean(x²) + epsilon)
    kLayer,  // weight · (x - mean(x)) / sqrt(variance(x) + epsilon) + bias
  };
  Kind kind = Kind::kRms;
  double epsilon = 1e-6;
  // RMS norms multiply by 1 + weight, computed in float32. Their weights are stored less 1.
  bool plus_one = false;
};

// Rotary position embedding. Names as in config.json. Source of the scalings: transformers,
// modeling_rope_utils.py.
struct RopeSpec {
  enum class Scaling {
    kNone,
    kLinear,  // every frequency is divided by `factor`
    kLlama3,  // Llama 3.1's long context: low frequencies are divided by `factor`
    kYarn,  // low frequencies are divided by `factor`, with a ramp between beta_slow and beta_fast
    kLongRope,  // each frequency is divided by a number of its own
  };
  double theta = 10000.0;              // base of the frequencies
  double partial_rotary_factor = 1.0;  // share of a head's elements that rotates, the first ones
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;            // kLinear, kLlama3, kYarn
  double low_freq_factor = 1.0;   // kLlama3
  double high_freq_factor = 4.0;  // kLlama3
  int original_context = 0;       // positions; kLlama3, kYarn
  double beta_fast = 32.0;        // kYarn
  double beta_slow = 1.0;         // kYarn
  bool truncate = true;           // kYarn: the ends of the ramp are whole numbers
  double attention_factor = 1.0;  // cosines and sines are multiplied by it: kYarn, kLongRope
  std::vector<double> divisors;   // of the frequencies, [rotary_size / 2]: kLongRope

  // Elements of a head that rotate; even.
  int rotary_size(int head_size) const {
    return static_cast<int>(head_size * partial_rotary_factor);
  }
};

// Of the gate; of an MLP without a gate, of what `up` gives.
enum class Activation {
  kSilu,      // x · sigmoid(x)
  kGelu,      // by the error function
  kGeluTanh,  // GELU's approximation by tanh
  kRelu,      // max(x, 0)
};

// Norms of q and k before they are rotated, with weights of their own.
enum class QkNorm {
  kNone,
  kHead,   // over each head; weights [head_size]
  kWidth,  // over all heads of a token together; weights [q_size] and [kv_size]
};

// What differs from layer to layer.
struct LayerSpec {
  bool sliding = false;  // its attention sees a window (DecoderSpec::sliding_window)
  bool rotated = true;   // q and k are rotated; false: their positions do not show in them
};

// "rms", "layer"; "silu", "gelu", "gelu_tanh", "relu"; "none", "head", "width".
const char* NormKindName(NormSpec::Kind kind);
const char* ActivationName(Activation activation);
const char* QkNormName(QkNorm norm);

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

  // Of one kind wherever there is a norm: where pre_norm and post_norm say, and before the logits.
  // The norms of q and k are RMS norms of the same epsilon.
  NormSpec norm;
  bool pre_norm = true;    // attention and MLP read norm(x); false: x itself
  bool post_norm = false;  // what attention and MLP give is normed before it is added to x
  // Attention and MLP read the same x, and both results are added to it together.
  bool parallel_residual = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;  // of gate, up and down

  RopeSpec rope;                         // of rotated layers
  std::optional<RopeSpec> sliding_rope;  // of those that slide, if it is another
  bool learned_positions = false;        // a row of a table is added to the embedding; no rotation
  int position_offset = 0;               // of position 0 in that table
  int sliding_window = 0;  // a token sees so many positions, its own the last; 0: all before it
  // [layers]. Empty: all are rotated, and all slide where sliding_window is not 0.
  std::vector<LayerSpec> layer_specs;

  Activation activation = Activation::kSilu;
  bool gated_mlp = true;  // false: down(activation(up(y)))

  double embedding_scale = 1.0;  // embeddings are multiplied by it (before positions are added)
  double residual_scale = 1.0;   // what attention and MLP give, before it is added to x
  double attention_scale = 0.0;  // of q·k; 0: 1 / sqrt(head_size)
  double logit_scale = 1.0;
  bool tied_embeddings = false;  // the logits' matrix is the embeddings'
  // Of a draft whose output was pruned: the tokens that have logits; those of all others are
  // -infinity. 0: all have.
  int draft_vocabulary_size = 0;

  // Rows of the logits' matrix.
  int output_size() const {
    return draft_vocabulary_size > 0 ? draft_vocabulary_size : vocabulary_size;
  }

  int q_size() const { return heads * head_size; }
  int kv_size() const { return kv_heads * head_size; }

  // Of a layer: the positions that a token sees (0: all before it), and how q and k are rotated
  // (null: they are not). The pointer is into this.
  int window(int layer) const;
  const RopeSpec* layer_rope(int layer) const;

  // All values in a fixed spelling, for content ids: equal texts, equal functions of the weights. A
  // field that is added later may show only where it differs from its default, so that the ids of
  // models stay as they are.
  std::string Canonical() const;
};

}  // namespace tandem::model
