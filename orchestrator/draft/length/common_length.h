// The length groups of one orchestrator (length_group.h), and how many sequences are decoded there.
//
// Bounded: beyond kMaxGroups kinds of requests the further ones share one more group.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "common/acceptance/rule.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/length/length_group.h"

namespace tandem::orchestrator {

class CommonLength {
 public:
  static constexpr size_t kMaxGroups = 32;

  // The group of requests with this drafter (as the request names it; may be empty), rule,
  // number of nodes of a tree (0: a chain; absent: the group chooses it), and confidence that ends
  // their blocks (absent: the group chooses it), and those alone whose draft may prepare blocks, or
  // none of them.
  std::shared_ptr<LengthGroup> Group(const std::string& drafter, acceptance::Rule rule,
                                     std::optional<uint32_t> draft_nodes = 0,
                                     std::optional<double> min_confidence = {},
                                     bool prepares = false);

  // A sequence begins to be decoded, whatever its policy, and ends.
  void Began() { sequences_.fetch_add(1, std::memory_order_relaxed); }
  void Ended() { sequences_.fetch_sub(1, std::memory_order_relaxed); }
  uint32_t sequences() const { return sequences_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> sequences_{0};
  concurrency::Mutex mutex_;
  using Key = std::tuple<std::string, acceptance::Rule, std::optional<uint32_t>,
                         std::optional<double>, bool>;
  std::map<Key, std::shared_ptr<LengthGroup>> groups_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<LengthGroup> others_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
