#include "target_service/slot_shares.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::target_service {

void SlotShares::Add(StreamId stream, int64_t tokens) {
  Held& held = held_[stream];
  held.sequences += 1;
  held.tokens += tokens;
  taken_ += 1;
  tokens_ += tokens;
}

void SlotShares::Remove(StreamId stream, int64_t tokens) {
  auto it = held_.find(stream);
  TANDEM_CHECK(it != held_.end()) << "stream " << stream << " holds nothing";
  it->second.sequences -= 1;
  it->second.tokens -= tokens;
  taken_ -= 1;
  tokens_ -= tokens;
  if (it->second.sequences == 0) held_.erase(it);
}

void SlotShares::Want(StreamId stream, SequenceId sequence, Lack lack, concurrency::Instant until) {
  wants_[{stream, sequence}] = {lack, until};
}

void SlotShares::Forget(StreamId stream, SequenceId sequence) { wants_.erase({stream, sequence}); }

void SlotShares::Forget(StreamId stream) {
  absl::erase_if(wants_, [stream](const auto& entry) { return entry.first.first == stream; });
}

uint32_t SlotShares::Free(StreamId stream, concurrency::Instant now) {
  absl::erase_if(wants_, [now](const auto& entry) { return entry.second.until <= now; });
  const uint32_t free = max_sequences_ - std::min(taken_, max_sequences_);
  if (free == 0 || wants_.empty()) return free;

  absl::flat_hash_map<StreamId, uint32_t> wanting;  // sequences that each waits for
  absl::flat_hash_map<StreamId, bool> lacks_room;
  for (const auto& [key, waiting] : wants_) {
    wanting[key.first] += 1;
    lacks_room[key.first] |= waiting.lack == Lack::kRoom;
  }
  size_t sharers = held_.size();
  for (const auto& [id, count] : wanting) sharers += held_.contains(id) ? 0 : 1;
  if (!held_.contains(stream) && !wanting.contains(stream)) ++sharers;

  auto held_by = [this](StreamId id) {
    auto it = held_.find(id);
    return it == held_.end() ? Held{} : it->second;
  };
  const uint32_t share = std::max<uint32_t>(1, max_sequences_ / static_cast<uint32_t>(sharers));
  const double room_share = static_cast<double>(tokens_) / static_cast<double>(sharers);
  const Held own = held_by(stream);

  uint32_t reserved = 0;  // for others that are below their share
  bool room_is_reserved = false;
  for (const auto& [id, count] : wanting) {
    if (id == stream) continue;
    const Held other = held_by(id);
    if (other.sequences < share) reserved += std::min(count, share - other.sequences);
    if (lacks_room[id] && static_cast<double>(other.tokens) < room_share) room_is_reserved = true;
  }
  if (room_is_reserved && static_cast<double>(own.tokens) >= room_share) return 0;
  // Up to its own share it may always take; beyond it, what the others leave.
  const uint32_t below_share = own.sequences < share ? share - own.sequences : 0;
  return std::min(free, std::max(below_share, free - std::min(free, reserved)));
}

}  // namespace tandem::target_service
