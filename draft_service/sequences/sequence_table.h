// The sequences that the draft service holds, by stream and by the client's number for them.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/messages/refusal.h"
#include "common/speculation/held_prefix.h"
#include "common/telemetry/span_context.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/sequences/events.h"

namespace tandem::draft_service {

// An Advance without its Block.
struct Unanswered {
  uint64_t round = 0;
  concurrency::Instant arrived;
  absl::Duration wanted_within;  // from then
  uint32_t max_draft_tokens = 0;
  uint32_t max_nodes = 0;                       // of a tree; 0: a chain
  double min_confidence = 0;                    // BlockShape::min_confidence
  uint32_t max_outcomes = 0;                    // BlockShape::max_outcomes
  std::optional<telemetry::SpanContext> trace;  // sampled; absent: it is not
  absl::Duration computed;                      // time of the passes that it was in, and its own
  int drafted = 0;                              // draft tokens

  concurrency::Instant deadline() const { return arrived + wanted_within; }
};

// The block that a sequence's client has, and blocks for its outcomes.
struct Base {
  uint64_t round = 0;
  base::BlockId id{};
  std::vector<uint32_t> tokens;
  // Absent: they are not sent, because they are being made or nobody makes them.
  struct Outcome {
    base::BlockId id{};
    PreparedBlock block;
  };
  std::optional<std::vector<Outcome>> sent;
};

struct Sequence {
  StreamId stream{};
  SequenceId name{};                         // the client's number for it
  uint64_t id = 0;                           // unique in this process
  uint64_t group = 0;                        // its client's: they share its part of the device
  int weight = 1;                            // among these
  std::string drafter_name;                  // as in Options; empty: there is none of the name
  std::unique_ptr<Drafter> drafter;          // null: `problem` says why not
  uint32_t max_nodes = 0;                    // of the trees that it may ask for
  bool values_may_decide = false;            // on length and outcomes: its rule has no q
  std::optional<messages::Refusal> problem;  // the answer to every Advance until it is opened again
  std::optional<messages::Refusal> notice;   // the answer to the next Advance alone
  speculation::HeldPrefix committed;
  std::optional<uint64_t> last_round;  // the last one that was answered with a block
  base::BlockId last_block{};
  std::optional<Unanswered> unanswered;
  std::optional<Base> base;  // absent: no blocks are prepared (serving/prepared_blocks.h)

  ForwardDrafter* forward_drafter() const {
    return drafter == nullptr ? nullptr : drafter->forward_drafter();
  }
};

class SequenceTable {
 public:
  // Null: none of that name on that stream. Pointers stay valid until Erase.
  Sequence* Find(StreamId stream, SequenceId name);
  // One of the stream's; null: it has none.
  Sequence* AnyOf(StreamId stream);
  // There is none of that name yet. `group`: as Sequence's.
  Sequence& Add(StreamId stream, SequenceId name, uint64_t group);
  void Erase(const Sequence& sequence);
  // Every Advance is answered so from now on; its drafter ends.
  void SetProblem(Sequence& sequence, messages::Refusal problem);

  size_t size() const { return sequences_.size(); }
  size_t size(uint64_t group) const;
  size_t live() const { return live_; }  // sequences without a problem
  size_t live(uint64_t group) const;

  // Groups with a live sequence.
  size_t live_groups() const;
  // That has the most live sequences; there is one. Of equal ones the oldest.
  uint64_t largest_group() const;
  // The group's live sequence without an unanswered Advance that was opened first; null: none.
  Sequence* OldestIdle(uint64_t group);

 private:
  struct Group {
    size_t size = 0;
    size_t live = 0;
  };

  std::map<std::pair<StreamId, SequenceId>, Sequence> sequences_;
  uint64_t last_id_ = 0;
  size_t live_ = 0;
  std::map<uint64_t, Group> groups_;  // those with a sequence
};

}  // namespace tandem::draft_service
