// What the checkpoints of a family call their tensors.
#pragma once

#include <string>
#include <vector>

namespace tandem::model {

// Each name is a stem: the weight is called stem.weight, the bias stem.bias. Shapes:
// decoder_tensors.h.
struct TensorNames {
  std::string embedding;
  std::string layers;  // layer i's stems follow "<layers>.<i>."

  // Of a layer.
  std::string attention_norm;
  std::string q;
  std::string k;
  std::string v;
  std::string o;
  std::string mlp_norm;
  std::string gate;
  std::string up;
  std::string down;

  std::string final_norm;
  std::string output;  // of a model whose embeddings are not tied

  // Ends of whole names of tensors that may be there and say nothing that config.json does not say.
  std::vector<std::string> ignored;
};

}  // namespace tandem::model
