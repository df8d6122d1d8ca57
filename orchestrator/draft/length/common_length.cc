#include "orchestrator/draft/length/common_length.h"

namespace tandem::orchestrator {

std::shared_ptr<LengthGroup> CommonLength::Group(const std::string& drafter, acceptance::Rule rule,
                                                 std::optional<uint32_t> draft_nodes,
                                                 std::optional<double> min_confidence,
                                                 bool prepares) {
  concurrency::MutexLock lock(mutex_);
  const Key key(drafter, rule, draft_nodes, min_confidence, prepares);
  const auto known = groups_.find(key);
  if (known != groups_.end()) return known->second;
  if (groups_.size() < kMaxGroups) {
    const bool ends_by_confidence = draft_nodes.value_or(0) == 0 && !min_confidence.has_value();
    return groups_[key] = std::make_shared<LengthGroup>(ends_by_confidence);
  }
  if (others_ == nullptr) others_ = std::make_shared<LengthGroup>();
  return others_;
}

}  // namespace tandem::orchestrator
