#include "common/flags/nearest_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tandem::flags {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, substituted});
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
