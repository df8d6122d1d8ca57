// Text of others in our messages: names in a file, values of a flag. It may be megabytes long and
// hold what moves a terminal's cursor.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem::base {

// What stands in a message for a value: control characters are escaped, "\n" and "\x1b", and a text
// longer than `max_bytes` is cut at a character: "aaaa… (1048576 bytes)".
std::string Excerpt(absl::string_view value, size_t max_bytes = 256);

// A whole message for a terminal: the same, but line breaks stay, and there is room for a list.
std::string MessageForTerminal(absl::string_view message);

}  // namespace tandem::base
