// For whom room in the pool is kept. A sequence that was refused for want of room waits as long as
// its client asks again, and whoever comes after it leaves it its room. So a long sequence is
// served though short ones come all the time. Nobody's running sequences are ended: it is served
// once those that run have ended.
//
// Who comes first:
//
// - Of one stream: higher priority, then who was refused first.
// - Of two streams: the one that has waited for longer without getting a sequence; so streams take
//   turns. Room is kept for the first of its sequences alone.
// - A stream that holds its fair share of the room or more keeps none from others, and gives way to
//   those that wait and hold less, however long they have waited. A fair share is what all hold
//   together over the streams that hold some or want some.
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

class RoomLine {
 public:
  // A stream has one sequence more, or less, with room for `tokens`. Add ends the stream's turn.
  void Add(StreamId stream, int64_t tokens);
  void Remove(StreamId stream, int64_t tokens);

  // The sequence was refused for want of room for `tokens`. It waits until then. One that waits
  // already keeps its place.
  void Want(StreamId stream, SequenceId sequence, uint32_t priority, int64_t tokens,
            concurrency::Instant until);
  // It was refused for another reason; if it waits for room, it waits until then.
  void Extend(StreamId stream, SequenceId sequence, concurrency::Instant until);
  // It has got room, or its client does not want it any more.
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
