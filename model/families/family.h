// A family of models is data and one function: how config.json spells its models, how the fields
// become a DecoderSpec, and what its checkpoints call the tensors. families.h has those that are
// served. What the models of a new one compute that Decoder does not is a change of the decoder,
// and refused by name until then.
#pragma once

#include <string>
#include <vector>

#include "model/files/json_fields.h"
#include "model/spec/decoder_spec.h"
#include "model/spec/tensor_names.h"

namespace tandem::model {

// Immutable.
struct Family {
  std::string name;  // a model_type of its config.json; begins its model ids
  // The other model_types of its config.json. That of a wrapper (text and images, say) has the
  // text's fields in its object text_config, and `read` gets that.
  std::vector<std::string> other_model_types;
  std::vector<std::string> architectures;  // of its config.json

  // Reads config.json. Reports to `fields` every field that is missing, out of range, or not
  // supported in this family; the result counts only where nothing was reported.
  DecoderSpec (*read)(Fields& fields) = nullptr;

  TensorNames tensors;
};

}  // namespace tandem::model
