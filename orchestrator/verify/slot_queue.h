// Who waits in line for a slot at a target, and in which order: by priority, then by the request's
// arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace tandem::orchestrator {

// Not thread-safe: its pool's lock. A session is named by a number that rises with the arrival of
// its request; its priority stays what it is.
class SlotQueue {
 public:
  // Whoever is there already keeps its place.
  void Join(uint64_t session, uint32_t priority) { line_.insert(PlaceOf(session, priority)); }
  // Whoever is not there stays away.
  void Leave(uint64_t session, uint32_t priority) { line_.erase(PlaceOf(session, priority)); }

  bool empty() const { return line_.empty(); }
  size_t size() const { return line_.size(); }

  // All of them, from the front.
  std::vector<uint64_t> Sessions() const {
    std::vector<uint64_t> sessions;
    sessions.reserve(line_.size());
    for (const Place& place : line_) sessions.push_back(place.second);
    return sessions;
  }

 private:
  // Higher priority first, then older sessions.
  using Place = std::pair<int64_t, uint64_t>;
  static Place PlaceOf(uint64_t session, uint32_t priority) {
    return {-int64_t{priority}, session};
  }

  std::set<Place> line_;
};

}  // namespace tandem::orchestrator
