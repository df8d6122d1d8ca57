// Decides which stream may take another slot. Free slots go first come, first served, until a
// stream is refused because none is left. From then on a stream that holds its fair share or more
// gets no slot that a stream below its share waits for, so released slots go to that one. Running
// sequences are never ended.
//
// A fair share is the number of slots divided by the streams that hold or want some. A sequence
// also requires room in the KV cache (room_line.h).
//
// Not thread-safe: used on the device's thread only.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/serving/stream_id.h"

namespace tandem::target_service {

using base::SequenceId;
using serving::StreamId;

class SlotShares {
 public:
  explicit SlotShares(uint32_t max_sequences) : max_sequences_(max_sequences) {}

  // A stream has one sequence more, or less.
  void Add(StreamId stream);
  void Remove(StreamId stream);

  // It was refused: it counts as waiting for this sequence until then, or until it gets the slot.
  void Want(StreamId stream, SequenceId sequence, concurrency::Instant until);
  void Forget(StreamId stream, SequenceId sequence);
  void Forget(StreamId stream);

  // Slots that the stream may take now. Lingering sequences hold no slot: theirs
  // count as free.
  uint32_t Free(StreamId stream, concurrency::Instant now);

  uint32_t taken() const { return taken_; }
  size_t waiting() const { return wants_.size(); }

 private:
  const uint32_t max_sequences_;
  uint32_t taken_ = 0;
  absl::flat_hash_map<StreamId, uint32_t> held_;  // sequences of those with at least one
  // When each stops counting as waiting.
  absl::flat_hash_map<std::pair<StreamId, SequenceId>, concurrency::Instant> wants_;
};

}  // namespace tandem::target_service
