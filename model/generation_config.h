// What generation_config.json of a Hugging Face directory says of how tokens are drawn. Its end
// tokens are read with config.json (config.h).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace tandem::model {

// temperature, top_k, top_p, min_p and repetition_penalty, where they are written and not null; all
// absent without the file. `do_sample: false`, where it is written, is temperature 0, whatever
// temperature stands beside it: so transformers decodes. Without do_sample the numbers stand as
// they are. Each as its float32. INVALID_ARGUMENT: one message that names the file, and each field
// that is of another type or out of the range that SamplingOptions (sampling.proto) has for it,
// with its value; and each field that makes transformers write another text and is not served here
// (num_beams, typical_p, no_repeat_ngram_size, …), unless its value is the one that does nothing.
//
// `unused`, which may be null, gets the other fields that this program does not follow and does not
// know to be harmless (max_length, say), in the order of their names.
absl::StatusOr<SamplingDefaults> ReadSamplingDefaults(const std::string& directory,
                                                      std::vector<std::string>* unused = nullptr);

}  // namespace tandem::model
