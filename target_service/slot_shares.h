// Who may open one more sequence. Whoever comes first takes what is free, until some stream was
// refused for want of it: then a stream that holds its fair share or more opens none that another
// one, below its share, waits for, so that what is given back goes to that one. Nobody's running
// sequences are ended.
//
// A fair share of the slots is all of them over the streams that hold some or want some; of the
// pool's room, what all hold together over the same streams.
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
  enum class Lack { kSlot, kRoom };

  explicit SlotShares(uint32_t max_sequences) : max_sequences_(max_sequences) {}

  // A stream has one sequence more, or less, with room for `tokens`.
  void Add(StreamId stream, int64_t tokens);
  void Remove(StreamId stream, int64_t tokens);

  // It was refused; it counts as waiting for this sequence until then, or until it has got it.
  void Want(StreamId stream, SequenceId sequence, Lack lack, concurrency::Instant until);
  void Forget(StreamId stream, SequenceId sequence);
  void Forget(StreamId stream);

  // Sequences that the stream may open now, by slots and shares. What lingers is not held by anyone
  // and counts as free.
  uint32_t Free(StreamId stream, concurrency::Instant now);

  uint32_t taken() const { return taken_; }
  size_t waiting() const { return wants_.size(); }

 private:
  struct Held {
    uint32_t sequences = 0;
    int64_t tokens = 0;
  };
  struct Waiting {
    Lack lack = Lack::kSlot;
    concurrency::Instant until;
  };

  const uint32_t max_sequences_;
  uint32_t taken_ = 0;
  int64_t tokens_ = 0;
  absl::flat_hash_map<StreamId, Held> held_;  // those with at least one
  absl::flat_hash_map<std::pair<StreamId, SequenceId>, Waiting> wants_;
};

}  // namespace tandem::target_service
