// A line of requests or sequences that wait for their turn: higher priority first, then clients
// round-robin (common/concurrency/client_turns.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/concurrency/client_turns.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by its owner's lock. What waits is named by a number that rises with the
// order of arrival.
class WaitingLine {
 public:
  // Does nothing for a number that is in line.
  void Join(uint64_t number, uint32_t priority, const std::string& client) {
    if (Enter(number, priority, client)) turns_[priority].Join(client, number);
  }
  // After Leave with `had_turn`, for a turn that brought nothing: the client's turn is the next.
  // Does nothing either for a number that is in line.
  void JoinAgain(uint64_t number, uint32_t priority, const std::string& client) {
    if (Enter(number, priority, client)) turns_[priority].JoinAgain(client, number);
  }
  // Returns whether it was in line. `had_turn`: it got what it waited for.
  bool Leave(uint64_t number, bool had_turn) {
    const auto it = places_.find(number);
    if (it == places_.end()) return false;
    const auto turns = turns_.find(it->second.priority);
    turns->second.Leave(it->second.client, number, had_turn);
    if (turns->second.empty()) turns_.erase(turns);
    places_.erase(it);
    return true;
  }

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }

  // Not for an empty line.
  uint64_t Front() const { return turns_.begin()->second.Front(); }
  // All numbers, from the front.
  std::vector<uint64_t> InOrder() const {
    std::vector<uint64_t> all;
    all.reserve(size());
    for (const auto& [priority, turns] : turns_) {
      const std::vector<uint64_t> order = turns.InOrder();
      all.insert(all.end(), order.begin(), order.end());
    }
    return all;
  }
  // Which number gives way where the line is full and another one comes: one of the lowest
  // priority, of the client that has the most there. Empty: the one that comes.
  std::optional<uint64_t> GivesWayTo(uint32_t priority, const std::string& client) const {
    if (empty() || turns_.rbegin()->first > priority) return std::nullopt;
    return turns_.rbegin()->second.GivesWayTo(client);
  }

 private:
  struct Place {
    uint32_t priority = 0;
    std::string client;
  };
  // False: it is in line.
  bool Enter(uint64_t number, uint32_t priority, const std::string& client) {
    return places_.try_emplace(number, Place{priority, client}).second;
  }

  std::unordered_map<uint64_t, Place> places_;
  std::map<uint32_t, concurrency::ClientTurns, std::greater<>> turns_;  // none is empty
};

}  // namespace tandem::orchestrator
