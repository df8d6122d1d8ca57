// What a directory is that is not a model to be served.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace tandem::model {

// Looks at the names of the files in `directory`, at config.json, and at the first bytes of files
// that may be pointers: never at weights, so it takes milliseconds. OK: nothing speaks against a
// model that is served; whether it is one, its files say when they are read.
//
// NOT_FOUND: there is no such directory. INVALID_ARGUMENT: it is something else; the message says
// what it is, by which file or field that was seen, and what to do.
absl::Status CheckDirectory(const std::string& directory);

}  // namespace tandem::model
