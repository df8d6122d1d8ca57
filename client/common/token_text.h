// What a token stands for, for people and for programs. It may be a part of a character.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/base/json.h"

namespace tandem::client {

// Between quotes, as in C: a line break is \n, a quote is \", bytes that are not a character are
// \xNN. At most 40 bytes are between the quotes. Of what is longer, the beginning and "…".
std::string QuotedToken(absl::string_view bytes);

// [72, 105]
base::JsonText BytesJson(absl::string_view bytes);

}  // namespace tandem::client
