// Who may take one more slot. Whoever comes first takes what is free, until some stream was refused
// for want of it: then a stream that holds its fair share or more opens none that another one,
// below its share, waits for, so that what is given back goes to that one. Nobody's running
// sequences are ended.
//
// A fair share is all slots over the streams that hold some or want some. A sequence has to have
// room in the pool, too (room_line.h).
//
// Thread safety: none; the device's thread alone.
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

  // It was refused; it counts as waiting for this sequence until then, or until it has got it.
  void Want(StreamId stream, SequenceId sequence, concurrency::Instant until);
  void Forget(StreamId stream, SequenceId sequence);
  void Forget(StreamId stream);

  // Slots that the stream may take now. What lingers is not held by anyone
  // and counts as free.
  uint32_t Free(StreamId stream, concurrency::Instant now);

  uint32_t taken() const { return taken_; }
  size_t waiting() const { return wants_.size(); }

 private:
  const uint32_t max_sequences_;
  uint32_t taken_ = 0;
  absl::flat_hash_map<StreamId, uint32_t> held_;  // sequences of those with at least one
  // Until when each counts as waiting.
  absl::flat_hash_map<std::pair<StreamId, SequenceId>, concurrency::Instant> wants_;
};

}  // namespace tandem::target_service
