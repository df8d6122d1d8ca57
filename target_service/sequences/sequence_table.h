// What the target holds of each sequence, and how many may be held at once.
//
// A sequence whose stream broke lingers: nothing is computed for it, but it stays for a while, so
// that its client finds it again on its next stream and nothing is computed twice. What lingers
// gives way, the oldest first, as soon as somebody wants its slot or its room.
//
// Thread safety: the device's thread alone, like the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/messages/refusal.h"
#include "common/speculation/held_prefix.h"
#include "common/speculation/sequence_settings.h"
#include "target_service/engine/engine.h"
#include "target_service/sequences/room_line.h"
#include "target_service/sequences/slot_shares.h"
#include "target_service/sequences/step_check.h"

namespace tandem::target_service {

struct Sequence {
  std::shared_ptr<const speculation::SequenceSettings> settings;  // another one after each replay
  // The ids that stand of those that the engine holds. After a block these are the committed tokens
  // and the draft tokens, accepted or not; of a tree those that stand.
  speculation::HeldPrefix held;
  std::unique_ptr<EngineSequence> in_engine;
  // The last round whose entries were sent since the last replay began. `more` Steps and refused
  // ones do not count.
  std::optional<uint64_t> last_round;
  bool busy = false;   // a Step of it waits for its verdict
  uint64_t round = 0;  // of its last Step
  // How the block of that Step ended, where the target knows it without the client: under a rule
  // whose tests are certain (acceptance/tree.h), of a chain.
  struct Outcome {
    uint32_t committed = 0;  // before the block
    uint32_t node = 0;       // draft tokens that stand
    uint32_t next_token = 0;
  };
  std::optional<Outcome> outcome;
  // When its last verdict was made, and the one before. What it took from a verdict to the Step
  // that followed it (gathering.h).
  concurrency::Instant answered_at = concurrency::Instant::InfinitePast();
  concurrency::Instant answered_before = concurrency::Instant::InfinitePast();
  absl::Duration turnaround = absl::InfiniteDuration();
  // It goes then, unless a Step comes for it; infinite: it does not linger.
  concurrency::Instant lingers_until = concurrency::Instant::InfiniteFuture();

  // From the verdict that a Step of so many committed tokens follows to its arrival. A Step that
  // overrules a chained one does not follow the chained one's: it commits none of its block.
  absl::Duration TurnaroundOf(uint32_t committed, concurrency::Instant arrived) const {
    const bool overrules = outcome.has_value() && committed <= outcome->committed;
    return arrived - (overrules ? answered_before : answered_at);
  }
  bool lingers() const { return lingers_until != concurrency::Instant::InfiniteFuture(); }
};

// What a Step makes the device do.
struct StepPlan {
  Sequence* sequence = nullptr;  // busy from now on; lives until it is erased
  int start = 0;                 // the position of tokens[0]; what stands ends there
  // To feed: the committed ones that are not held, then the draft tokens. For log probabilities of
  // prefix.tokens: the one before them, and all of them.
  std::vector<uint32_t> tokens;
  int verify_rows = 0;         // the last so many of them are judged; 0 for a Step with `more`
  uint32_t cached_tokens = 0;  // of the Step's prefix.tokens: taken from other sequences
};

class SequenceTable {
 public:
  struct Limits {
    uint32_t max_sequences = 64;
    uint32_t max_draft_tokens = 16;
    absl::Duration retry_after = absl::Milliseconds(50);
  };

  // `engine` must outlive the table.
  SequenceTable(Limits limits, Engine& engine)
      : limits_(limits), engine_(engine), shares_(limits.max_sequences) {}

  // Finds or opens the Step's sequence and rolls it back to what its prefix shares with what is
  // held. It lingers no more.
  //   INVALID      a Step of it is unanswered; options absent or present where they should not be;
  //                a prefix longer than options.max_length; more room than the whole pool has; log
  //                probabilities of the prompt where options.logprobs was not sent; a tree that is
  //                larger than options.max_nodes
  //   STALE        not above the last answered round, and no replay
  //   NEED_PREFIX  see HeldPrefix; also keep > 0 for a sequence that is not held at all, or for one
  //                that would be rolled back below what it shares
  //   DRAINING     would open a sequence while `draining`
  //   NO_SLOT      would open a sequence, and there is no slot or no room in the pool for its
  //                tokens, or it is kept for others that wait (slot_shares.h, room_line.h)
  // A refused Step changes nothing, but for a replay that asks for more room than there is: that
  // one ends its sequence.
  std::variant<StepPlan, messages::Refusal> Begin(StreamId stream, const CheckedStep& step,
                                                  bool draining, concurrency::Instant now);

  Sequence* Find(StreamId stream, SequenceId id);
  void Erase(StreamId stream, SequenceId id);  // an unknown one is not an error
  void EraseStream(StreamId stream);           // and what lingers of it

  // The stream broke: its sequences linger `until` then. What has lingered before keeps its own
  // time.
  void Linger(StreamId stream, const std::string& client, concurrency::Instant until);
  // What lingers of the client's older streams belongs to `stream` now.
  void Adopt(const std::string& client, StreamId stream);
  void ExpireLingering(concurrency::Instant now);
  concurrency::Instant next_expiry() const;  // infinite: nothing lingers

  uint32_t size() const { return static_cast<uint32_t>(sequences_.size()); }
  // Sequences that were answered lately and do not linger: those that are being decoded.
  uint32_t decoding(concurrency::Instant now) const;
  uint32_t lingering() const { return size() - shares_.taken(); }
  // Sequences that the stream could open now.
  uint32_t free_slots(StreamId stream, concurrency::Instant now) {
    return shares_.Free(stream, now);
  }
  uint32_t free_slots() const { return limits_.max_sequences - shares_.taken(); }  // of anybody
  // Tokens of the longest sequence that the stream could open now; absent: it is not known. What is
  // kept for the stream's own sequences counts as free.
  std::optional<int64_t> free_tokens(StreamId stream, concurrency::Instant now);
  std::optional<int64_t> free_tokens() const;  // of anybody

 private:
  using Key = std::pair<StreamId, SequenceId>;
  using Sequences = absl::flat_hash_map<Key, std::unique_ptr<Sequence>>;

  std::optional<messages::Refusal> CheckNew(StreamId stream, const CheckedStep& step, bool draining,
                                            concurrency::Instant now);
  std::optional<messages::Refusal> CheckHeld(const Sequence& sequence,
                                             const CheckedStep& step) const;
  // Refuses a new sequence whose room is kept for others.
  std::optional<messages::Refusal> CheckKeptRoom(StreamId stream, SequenceId sequence,
                                                 const speculation::SequenceSettings& settings,
                                                 concurrency::Instant now);
  messages::Refusal RefuseRoom(StreamId stream, SequenceId sequence,
                               const speculation::SequenceSettings& settings, std::string message,
                               concurrency::Instant now);
  absl::Duration RetryAfter() const;
  // Makes room by ending what lingers, where that helps.
  absl::StatusOr<std::unique_ptr<EngineSequence>> OpenInEngine(
      const speculation::SequenceSettings& settings);
  // Begins a new sequence with what others of its scope have computed; returns how many tokens.
  uint32_t Recall(Sequence& sequence, const std::string& scope, const CheckedStep& step);
  // Later sequences of its scope may begin with the first `tokens` of this one.
  void Share(Sequence& sequence, uint32_t tokens);
  int RoomFor(const speculation::SequenceSettings& settings) const;
  // The same in whole pages, in tokens.
  int64_t PagesFor(const speculation::SequenceSettings& settings) const;
  // The position of the first token to feed, where the first `standing` ones are held.
  static uint32_t Start(const CheckedStep& step, uint32_t standing);
  StepPlan Plan(Sequence& sequence, const CheckedStep& step, uint32_t standing) const;
  bool EndOldestLingering();  // false: nothing lingers
  void Remove(Sequences::iterator it);
  // The stream holds the sequence from now on, and no longer.
  void Count(StreamId stream, const Sequence& sequence);
  void Discount(StreamId stream, const Sequence& sequence);
  // It waits for nothing any more.
  void Forget(StreamId stream, SequenceId id);
  void Forget(StreamId stream);

  const Limits limits_;
  Engine& engine_;
  SlotShares shares_;  // of the sequences that do not linger
  RoomLine room_;      // likewise
  Sequences sequences_;
  absl::flat_hash_map<std::string, StreamId> lingering_clients_;  // the stream theirs are under
};

}  // namespace tandem::target_service
