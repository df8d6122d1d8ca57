// The name that somebody may have meant.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::flags {

// The one of `names` that takes the fewest changes of single characters (Levenshtein 1966) to
// become; the first of several. Empty: none takes at most two, or a third of the length of `wrong`.
std::string NearestName(absl::string_view wrong, const std::vector<std::string>& names);

}  // namespace tandem::flags
