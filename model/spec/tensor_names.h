// What the checkpoints of a family call their tensors.
#pragma once

#include <string>
#include <vector>

namespace tandem::model {

// How the outputs of q, k and v lie in one matrix.
enum class FusedQkv {
  kNone,    // three matrices: q, k and v
  kParts,   // all of q, then all of k, then all of v
  kByHead,  // of each head its q, k and v; there are as many key/value heads as heads
};

// Each name is a stem: the weight is called stem.weight, the bias stem.bias. What a specification
// does not need may be empty. Shapes: decoder_tensors.h.
struct TensorNames {
  std::string embedding;
  std::string positions;  // of a model with learned positions
  std::string layers;     // layer i's stems follow "<layers>.<i>."

  // Of a layer.
  std::string attention_norm;
  std::string q;
  std::string k;
  std::string v;
  std::string qkv;  // in place of the three, unless fused_qkv is kNone
  std::string q_norm;
  std::string k_norm;
  std::string o;
  std::string post_attention_norm;
  std::string mlp_norm;
  std::string gate;
  std::string up;
  std::string gate_up;  // in place of the two: all gates, then all ups; empty: there are two
  std::string down;
  std::string post_mlp_norm;

  std::string final_norm;
  std::string output;        // of a model whose embeddings are not tied
  std::string other_output;  // another name for it, where checkpoints have two; may be empty

  FusedQkv fused_qkv = FusedQkv::kNone;
  bool transposed = false;  // the matrices of the layers are [inputs, outputs]

  // What checkpoints put in place of the beginning of these names: of "model.", say. A checkpoint
  // has the first one with which it has the embedding, the output or the first layer's norm.
  struct Prefix {
    std::string usual;  // of the names above; another name, the output's say, stays as it is
    std::string actual;
    std::string before_others;  // stands before those other names
  };
  std::vector<Prefix> prefixes;

  // Ends of whole names of tensors that may be there and say nothing that config.json does not say.
  std::vector<std::string> ignored;
  // Beginnings of whole names of tensors that may be there and that text does not need.
  std::vector<std::string> ignored_prefixes;
};

}  // namespace tandem::model
