// Reserves room in the KV cache for refused sequences. A sequence that was refused because there
// was no room waits as long as its client retries, and later ones leave it its room. So a long
// sequence is served even while short ones keep arriving. Running sequences are never ended: it is
// served when enough of them have ended.
//
// The order:
//
// - Within a stream: higher priority, then the one that was refused first.
// - Between streams: the one that has waited longer without getting a sequence, so streams
//   alternate. Room is kept only for the first of its sequences.
// - A stream that holds its fair share of the room or more reserves none, and gives way to waiting
//   streams that hold less, however long they have waited. A fair share is the room that all hold,
//   divided by the streams that hold or want some.
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

class RoomLine {
 public:
  // A stream has one sequence more, or less, with room for `tokens`. Add ends the stream's turn.
  void Add(StreamId stream, int64_t tokens);
  void Remove(StreamId stream, int64_t tokens);

  // The sequence was refused: no room for `tokens`. It waits until then. A waiting one keeps its
  // place.
  void Want(StreamId stream, SequenceId sequence, uint32_t priority, int64_t tokens,
            concurrency::Instant until);
  // It was refused for another reason; if it waits for room, it waits until then.
  void Extend(StreamId stream, SequenceId sequence, concurrency::Instant until);
  // It got room, or its client gave up.
  void Forget(StreamId stream, SequenceId sequence);
  void Forget(StreamId stream);

  // Tokens that must stay free for others if this sequence gets room now, whether it waits or not.
  int64_t KeptFrom(StreamId stream, SequenceId sequence, uint32_t priority,
                   concurrency::Instant now);
  // The same for any sequence of the stream, without what is kept for its own.
  int64_t KeptFrom(StreamId stream, concurrency::Instant now);

  size_t waiting() const { return wants_.size(); }

 private:
  struct Waiting {
    uint32_t priority = 0;
    int64_t tokens = 0;
    uint64_t number = 0;  // rises with the first refusal
    concurrency::Instant until;

    bool before(uint32_t other_priority, uint64_t other_number) const {
      return priority > other_priority || (priority == other_priority && number < other_number);
    }
  };
  struct Held {
    uint32_t sequences = 0;
    int64_t tokens = 0;
  };

  void Expire(concurrency::Instant now);
  void EndTurnUnlessWaiting(StreamId stream);
  int64_t HeldBy(StreamId stream) const;

  absl::flat_hash_map<std::pair<StreamId, SequenceId>, Waiting> wants_;
  absl::flat_hash_map<StreamId, Held> held_;       // of those with a sequence
  absl::flat_hash_map<StreamId, uint64_t> turns_;  // of those that wait: the lowest is the first
  int64_t tokens_ = 0;                             // that all hold
  uint64_t last_number_ = 0;
};

}  // namespace tandem::target_service
