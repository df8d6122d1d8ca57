// The histories of one orchestrator's drafters (drafter_history.h), one for each kind of request.
//
// Bounded: beyond kMaxKinds kinds the further ones share one more history. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/acceptance/rule.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/choice/drafter_history.h"
#include "orchestrator/draft/choice/drafter_trials.h"

namespace tandem::orchestrator {

class CommonDrafters {
 public:
  static constexpr size_t kMaxKinds = 32;

  explicit CommonDrafters(DrafterTrials trials = {}) : trials_(trials) {}
  const DrafterTrials& trials() const { return trials_; }

  // Of requests with this rule and size of a tree; 0 nodes: chains.
  std::shared_ptr<DrafterHistory> History(acceptance::Rule rule, uint32_t draft_nodes) {
    concurrency::MutexLock lock(mutex_);
    const auto key = std::pair(rule, draft_nodes);
    const auto known = histories_.find(key);
    if (known != histories_.end()) return known->second;
    auto& place = histories_.size() < kMaxKinds ? histories_[key] : others_;
    if (place == nullptr) place = std::make_shared<DrafterHistory>();
    return place;
  }

 private:
  const DrafterTrials trials_;
  concurrency::Mutex mutex_;
  std::map<std::pair<acceptance::Rule, uint32_t>, std::shared_ptr<DrafterHistory>> histories_
      TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<DrafterHistory> others_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
