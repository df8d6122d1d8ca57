// Fields of config.json that the families of Hugging Face's decoders spell alike, as transformers 4
// and 5 write them. For the families' readers (family.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/files/json_fields.h"
#include "model/spec/decoder_spec.h"
#include "model/spec/tensor_names.h"

namespace tandem::model {

// vocab_size, max_position_embeddings, the sizes and numbers of heads and layers, head_dim,
// tie_word_embeddings. What config.json does not say is as in `defaults`, where it is not 0;
// kv_heads and head_size that are 0 there are heads, and hidden_size / heads. Reports to `fields`
// each one that is required and missing, of another type, out of range, or does not fit the others.
DecoderSpec ReadCommonFields(Fields& fields, const DecoderSpec& defaults);

// Reports to `fields` what does not fit in sizes that a family's reader has read by other names.
// `head_size_given`: it did not follow from the others.
void CheckShape(const DecoderSpec& spec, bool head_size_given, Fields& fields);

// A family's rope where config.json says nothing of it.
struct RopeDefaults {
  double theta = 10000.0;
  // Absent: models of the family rotate whole heads, whatever config.json says.
  std::optional<double> partial_rotary_factor;
  // Names of scalings that transformers reads as longrope in this family.
  std::vector<std::string> longrope_names = {"longrope"};
};

// rope_parameters (transformers 5), or rope_theta and partial_rotary_factor beside rope_scaling
// (4). `spec` has the sizes. The scalings: default, linear, dynamic, llama3, yarn, longrope.
//
// A dynamic rope scales beyond max_position_embeddings alone, where no sequence comes; so it is a
// default one. Of a longrope's two lists one is taken for good, because a row may not depend on how
// long its sequence becomes: the long one where the context is longer than
// original_max_position_embeddings, as transformers takes it for a sequence of the whole context.
RopeSpec ReadRope(Fields& fields, const DecoderSpec& spec, const RopeDefaults& defaults);

// The same of an object with a rope's own fields. `rope` has the defaults; `fields` is config.json.
RopeSpec ReadRopeObject(Fields& object, Fields& fields, const DecoderSpec& spec,
                        const RopeDefaults& defaults, RopeSpec rope);

// The activation by the name that transformers has for it; a name that is not in `supported` is
// reported.
Activation ReadActivation(Fields& fields, const char* field, const std::string& fallback,
                          const std::vector<std::string>& supported);

// layer_types: which layers slide. Absent where config.json has none.
std::optional<std::vector<LayerSpec>> ReadLayerTypes(Fields& fields, const DecoderSpec& spec);

// use_sliding_window, sliding_window, max_window_layers and layer_types as the Qwen families have
// them: the layers from max_window_layers on slide.
void ReadUsedWindow(Fields& fields, DecoderSpec& spec);

// The names of a Llama's tensors, which most families have, and the prefixes of wrappers.
TensorNames LlamaTensors();

}  // namespace tandem::model
