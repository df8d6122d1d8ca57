#include "target_service/sequences/room_line.h"

#include <limits>

#include "common/base/check.h"

namespace tandem::target_service {

void RoomLine::Add(StreamId stream, int64_t tokens) {
  Held& held = held_[stream];
  held.sequences += 1;
  held.tokens += tokens;
  tokens_ += tokens;
  if (auto turn = turns_.find(stream); turn != turns_.end()) turn->second = ++last_number_;
}

void RoomLine::Remove(StreamId stream, int64_t tokens) {
  auto it = held_.find(stream);
  TANDEM_CHECK(it != held_.end()) << "stream " << stream << " holds nothing";
  it->second.sequences -= 1;
  it->second.tokens -= tokens;
  tokens_ -= tokens;
  if (it->second.sequences == 0) held_.erase(it);
}

void RoomLine::Want(StreamId stream, SequenceId sequence, uint32_t priority, int64_t tokens,
                    concurrency::Instant until) {
  Waiting& waiting = wants_[{stream, sequence}];
  if (waiting.number == 0) waiting.number = ++last_number_;
  waiting.priority = priority;
  waiting.tokens = tokens;
  waiting.until = until;
  turns_.try_emplace(stream, waiting.number);
}

void RoomLine::Extend(StreamId stream, SequenceId sequence, concurrency::Instant until) {
  auto it = wants_.find({stream, sequence});
  if (it != wants_.end()) it->second.until = until;
}

void RoomLine::Forget(StreamId stream, SequenceId sequence) {
  if (wants_.erase({stream, sequence}) > 0) EndTurnUnlessWaiting(stream);
}

void RoomLine::Forget(StreamId stream) {
  absl::erase_if(wants_, [stream](const auto& entry) { return entry.first.first == stream; });
  turns_.erase(stream);
}

void RoomLine::EndTurnUnlessWaiting(StreamId stream) {
  for (const auto& [key, waiting] : wants_) {
    if (key.first == stream) return;
  }
  turns_.erase(stream);
}

void RoomLine::Expire(concurrency::Instant now) {
  const size_t before = wants_.size();
  absl::erase_if(wants_, [now](const auto& entry) { return entry.second.until <= now; });
  if (wants_.size() == before) return;
  absl::flat_hash_map<StreamId, uint64_t> left;
  for (const auto& [key, waiting] : wants_) left[key.first] = turns_.at(key.first);
  turns_ = std::move(left);
}

int64_t RoomLine::HeldBy(StreamId stream) const {
  auto it = held_.find(stream);
  return it == held_.end() ? 0 : it->second.tokens;
}

int64_t RoomLine::KeptFrom(StreamId stream, SequenceId sequence, uint32_t priority,
                           concurrency::Instant now) {
  int64_t kept = KeptFrom(stream, now);
  auto own = wants_.find({stream, sequence});
  const uint64_t number =
      own == wants_.end() ? std::numeric_limits<uint64_t>::max() : own->second.number;
  for (const auto& [key, waiting] : wants_) {
    if (key.first != stream || key.second == sequence) continue;
    if (waiting.before(priority, number)) kept += waiting.tokens;
  }
  return kept;
}

int64_t RoomLine::KeptFrom(StreamId stream, concurrency::Instant now) {
  Expire(now);
  if (wants_.empty()) return 0;

  size_t sharers = held_.size();
  for (const auto& [id, turn] : turns_) sharers += held_.contains(id) ? 0 : 1;
  if (!held_.contains(stream) && !turns_.contains(stream)) ++sharers;
  const double share = static_cast<double>(tokens_) / static_cast<double>(sharers);
  const auto below_share = [&](StreamId id) {
    const int64_t held = HeldBy(id);
    return held == 0 || static_cast<double>(held) < share;
  };

  const bool gives_way = !below_share(stream);
  auto own_turn = turns_.find(stream);
  const uint64_t own =
      own_turn == turns_.end() ? std::numeric_limits<uint64_t>::max() : own_turn->second;
  absl::flat_hash_map<StreamId, const Waiting*> first;  // of each stream that comes before
  for (const auto& [key, waiting] : wants_) {
    const StreamId id = key.first;
    if (id == stream || !below_share(id) || (!gives_way && turns_.at(id) > own)) continue;
    const Waiting*& foremost = first[id];
    if (foremost == nullptr || waiting.before(foremost->priority, foremost->number)) {
      foremost = &waiting;
    }
  }
  int64_t kept = 0;
  for (const auto& [id, waiting] : first) kept += waiting->tokens;
  return kept;
}

}  // namespace tandem::target_service
