// Fields of config.json that the families of Hugging Face's decoders spell alike, as transformers 4
// and 5 write them. For the families' readers (family.h).
#pragma once

#include "model/files/json_fields.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

// vocab_size, max_position_embeddings, the sizes and numbers of heads and layers, head_dim,
// tie_word_embeddings. What config.json does not say is as in `defaults`; kv_heads and head_size
// that are 0 there are heads, and hidden_size / heads. Reports to `fields` each one that is needed
// and missing, of another type, out of range, or does not fit the others; and weights that are
// quantised.
DecoderSpec ReadCommonFields(Fields& fields, const DecoderSpec& defaults);

// rope_parameters (transformers 5), or rope_theta and partial_rotary_factor beside rope_scaling
// (4).
RopeSpec ReadRope(Fields& fields);

}  // namespace tandem::model
