// Which tokens end a text, by the files beside a tokenizer.json. generation_config.json and
// config.json may name others (model/config.h); all of them end it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::tokenizer {

// The name of "eos_token" in the text of a tokenizer_config.json or a special_tokens_map.json: a
// string or an object with it as "content", as transformers writes it. Empty: the field is missing,
// null or empty. INVALID_ARGUMENT: the text is not a JSON object, or the field is something else.
absl::StatusOr<std::string> ReadEosToken(absl::string_view json);

}  // namespace tandem::tokenizer
