#include "orchestrator/draft/length/common_length.h"

namespace tandem::orchestrator {

std::shared_ptr<LengthGroup> CommonLength::Group(const std::string& drafter, acceptance::Rule rule,
                                                 uint32_t draft_nodes) {
  concurrency::MutexLock lock(mutex_);
  const auto key = std::tuple(drafter, rule, draft_nodes);
  const auto known = groups_.find(key);
  if (known != groups_.end()) return known->second;
  if (groups_.size() < kMaxGroups) {
    return groups_[key] = std::make_shared<LengthGroup>();
  }
  if (others_ == nullptr) others_ = std::make_shared<LengthGroup>();
  return others_;
}

}  // namespace tandem::orchestrator
