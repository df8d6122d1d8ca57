#include "draft_service/drafters/drafter_set.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::draft_service {

DrafterSet::DrafterSet(std::vector<DrafterFactory> drafters, absl::string_view default_drafter)
    : drafters_(std::move(drafters)) {
  TANDEM_CHECK(!drafters_.empty());
  if (default_drafter.empty()) return;
  const auto first = std::find_if(
      drafters_.begin(), drafters_.end(),
      [default_drafter](const DrafterFactory& drafter) { return drafter.name == default_drafter; });
  TANDEM_CHECK(first != drafters_.end()) << default_drafter;
  std::rotate(drafters_.begin(), first, first + 1);
}

const DrafterFactory* DrafterSet::Find(absl::string_view name) const {
  if (name.empty()) return &drafters_.front();
  for (const DrafterFactory& drafter : drafters_) {
    if (drafter.name == name) return &drafter;
  }
  return nullptr;
}

std::vector<std::string> DrafterSet::names() const {
  std::vector<std::string> names;
  names.reserve(drafters_.size());
  for (const DrafterFactory& drafter : drafters_) names.push_back(drafter.name);
  return names;
}

std::vector<std::string> DrafterSet::tree_names() const {
  return Those(&DrafterFactory::trees, true);
}

std::vector<std::string> DrafterSet::one_hot_names() const {
  return Those(&DrafterFactory::samples, false);
}

std::vector<std::string> DrafterSet::preparing_names() const {
  return Those(&DrafterFactory::prepares, true);
}

std::vector<std::string> DrafterSet::Those(bool DrafterFactory::*can, bool value) const {
  std::vector<std::string> names;
  for (const DrafterFactory& drafter : drafters_) {
    if (drafter.*can == value) names.push_back(drafter.name);
  }
  return names;
}

}  // namespace tandem::draft_service
