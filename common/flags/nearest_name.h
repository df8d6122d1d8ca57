// The name that somebody may have meant.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::flags {

// The one of `names` that takes the fewest changes of single characters (Levenshtein 1966) to
// become, at most two or a third of the length of `wrong`, whose case does not count; the first of
// several. Else the only one that contains `wrong`, if that has three characters. Empty: there is
// no such name.
std::string NearestName(absl::string_view wrong, const std::vector<std::string>& names);

// "; did you mean NAME?" to follow what is wrong; empty without a nearest name.
std::string DidYouMean(absl::string_view wrong, const std::vector<std::string>& names);

}  // namespace tandem::flags
