// The tokens that stand around a text, where tokenizer_config.json of a Hugging Face directory says
// so: add_bos_token, add_eos_token.
//
// The Llama classes of transformers 4 (LlamaTokenizer, CodeLlamaTokenizer and their fast forms) put
// these two in place of tokenizer.json's post-processor. Other classes of it do not read them.
// transformers 5 reads them only where there is no tokenizer.json. We do as transformers 4, for
// which such files were written. Sources: update_post_processor in
// models/llama/tokenization_llama_fast.py (4), _from_pretrained in tokenization_utils_base.py (5).
//
// Thread safety: plain values and pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::tokenizer {

// The names of the tokens; empty: none.
struct AroundText {
  std::string before;
  std::string after;

  bool operator==(const AroundText&) const = default;
};

// From the text of a tokenizer_config.json. Absent: the file does not decide, and tokenizer.json
// does. If one of the two fields is there, the other is as the Llama classes have it: a token
// before the text, and none after it. INVALID_ARGUMENT: it is not a JSON object, a field has
// another type, or a token is to be added that the file does not name.
absl::StatusOr<std::optional<AroundText>> ReadAroundText(absl::string_view tokenizer_config);

}  // namespace tandem::tokenizer
