// The line of sessions that wait for a slot at a target: by priority, then by the request's
// arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. A session is named by a number that rises with the
// arrival of its request. Its priority never changes.
class SlotQueue {
 public:
  // A session that is in line keeps its rank.
  void Join(uint64_t session, uint32_t priority) { line_.insert(RankOf(session, priority)); }
  // Returns whether the session was in line.
  bool Leave(uint64_t session, uint32_t priority) {
    return line_.erase(RankOf(session, priority)) > 0;
  }

  bool empty() const { return line_.empty(); }
  size_t size() const { return line_.size(); }

  // All sessions, from the front.
  std::vector<uint64_t> Sessions() const {
    std::vector<uint64_t> sessions;
    sessions.reserve(line_.size());
    for (const Rank& rank : line_) sessions.push_back(rank.second);
    return sessions;
  }

 private:
  // Higher priority first, then older sessions.
  using Rank = std::pair<int64_t, uint64_t>;
  static Rank RankOf(uint64_t session, uint32_t priority) { return {-int64_t{priority}, session}; }

  std::set<Rank> line_;
};

}  // namespace tandem::orchestrator
