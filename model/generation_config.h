// What generation_config.json of a Hugging Face directory says of how tokens are drawn. Its end
// tokens are read with config.json (config.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace tandem::model {

// temperature, top_k, top_p, min_p and repetition_penalty, where they are written and not null; all
// absent without the file. `do_sample: false`, where it is written, is temperature 0, whatever
// temperature stands beside it: so transformers decodes. Without do_sample the numbers stand as
// they are. Each as its float32. INVALID_ARGUMENT: one message that names the file, and each field
// that is of another type or out of the range that SamplingOptions (tokens.proto) has for it, with
// its value.
absl::StatusOr<SamplingDefaults> ReadSamplingDefaults(const std::string& directory);

}  // namespace tandem::model
