#include "target_service/sequences/slot_shares.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::target_service {

void SlotShares::Add(StreamId stream) {
  held_[stream] += 1;
  taken_ += 1;
}

void SlotShares::Remove(StreamId stream) {
  auto it = held_.find(stream);
  TANDEM_CHECK(it != held_.end()) << "stream " << stream << " holds nothing";
  it->second -= 1;
  taken_ -= 1;
  if (it->second == 0) held_.erase(it);
}

void SlotShares::Want(StreamId stream, SequenceId sequence, concurrency::Instant until) {
  wants_[{stream, sequence}] = until;
}

void SlotShares::Forget(StreamId stream, SequenceId sequence) { wants_.erase({stream, sequence}); }

void SlotShares::Forget(StreamId stream) {
  absl::erase_if(wants_, [stream](const auto& entry) { return entry.first.first == stream; });
}

uint32_t SlotShares::Free(StreamId stream, concurrency::Instant now) {
  absl::erase_if(wants_, [now](const auto& entry) { return entry.second <= now; });
  const uint32_t free = max_sequences_ - std::min(taken_, max_sequences_);
  if (free == 0 || wants_.empty()) return free;

  absl::flat_hash_map<StreamId, uint32_t> wanting;  // sequences that each waits for
  for (const auto& [key, until] : wants_) wanting[key.first] += 1;
  size_t sharers = held_.size();
  for (const auto& [id, count] : wanting) sharers += held_.contains(id) ? 0 : 1;
  if (!held_.contains(stream) && !wanting.contains(stream)) ++sharers;

  const auto held_by = [this](StreamId id) {
    auto it = held_.find(id);
    return it == held_.end() ? 0 : it->second;
  };
  const uint32_t share = std::max<uint32_t>(1, max_sequences_ / static_cast<uint32_t>(sharers));
  uint32_t reserved = 0;  // for others that are below their share
  for (const auto& [id, count] : wanting) {
    if (id == stream || held_by(id) >= share) continue;
    reserved += std::min(count, share - held_by(id));
  }
  // Up to its own share it may always take; beyond it, what the others leave.
  const uint32_t own = held_by(stream);
  const uint32_t below_share = own < share ? share - own : 0;
  return std::min(free, std::max(below_share, free - std::min(free, reserved)));
}

}  // namespace tandem::target_service
