#include "common/flags/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tandem::flags {
namespace {

// Two neighbours that changed places are one change.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, above[j] + 1, changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(absl::string_view wrong, const std::vector<std::string>& names) {
  const std::string lower = absl::AsciiStrToLower(wrong);
  size_t best = std::max<size_t>(2, lower.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const size_t distance = EditDistance(lower, name);
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  if (!nearest.empty() || lower.size() < 3) return nearest;
  const auto contains = [&lower](const std::string& name) {
    return absl::StrContains(name, lower);
  };
  const auto found = std::find_if(names.begin(), names.end(), contains);
  if (found == names.end() || std::find_if(found + 1, names.end(), contains) != names.end()) {
    return "";
  }
  return *found;
}

std::string DidYouMean(absl::string_view wrong, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(wrong, names);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace tandem::flags
