// A sequence's life at the draft: opened, with a drafter of its own; told what is committed;
// closed.
//
//   Open ──▶ live ──▶ erased: its client closed it, or its stream ended
//     │        └───▶ failed: its drafter gave an error, and may hold anything
//     └──────▶ refused
//
// One that failed or was refused is remembered until it is erased or opened again: every Advance is
// answered by the reason.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/messages/refusal.h"
#include "draft_service/drafters/drafter_set.h"
#include "draft_service/sequences/events.h"
#include "draft_service/sequences/sequence_table.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::draft_service {

class Sequences {
 public:
  // `max_live`: open at once.
  Sequences(DrafterSet drafters, size_t max_live)
      : drafters_(std::move(drafters)), max_live_(max_live) {}

  // Whose sequence ends so that the group can open this one; null: nobody's, because there is room,
  // or the group has its fair share, or all that could end have an unanswered Advance, or it is
  // refused for another reason. A fair share
  // is all sequences over the groups that have one and this one. A draft's state is cheap to build
  // anew, so what a client has beyond its share goes as soon as another one needs it, the oldest
  // first.
  Sequence* GivesWayTo(const OpenArrives& event, uint64_t group);
  // After GivesWayTo, of a sequence that is in no pass: its client may open it again.
  void GiveWay(Sequence& sequence);

  // What came of it is in the sequence. Null: there is none, or it is open already and its next
  // Advance is told so. `group`: of the stream's client. `draining`: nothing new is let in.
  Sequence* Open(OpenArrives event, uint64_t group, bool draining);
  // Null: none of that name on that stream.
  Sequence* Find(StreamId stream, SequenceId name) { return table_.Find(stream, name); }
  // One of the stream's; null: it has none.
  Sequence* AnyOf(StreamId stream) { return table_.AnyOf(stream); }

  // The committed tokens are those of `prefix` from now on. The refusal: they are not, because it
  // does not fit what is held (NEED_PREFIX), or because the sequence has failed over it.
  std::optional<messages::Refusal> Accept(Sequence& sequence, const internal::v1::Prefix& prefix);
  // More tokens are committed, which its drafter has been told.
  void AppendCommitted(Sequence& sequence, absl::Span<const uint32_t> tokens) {
    sequence.committed.Append(tokens);
  }
  // Its drafter gave this error. The refusal is the answer to every Advance.
  messages::Refusal Fail(Sequence& sequence, const absl::Status& status);
  // Its Advance was answered, and it is in no pass.
  void Erase(const Sequence& sequence) { table_.Erase(sequence); }

  size_t live() const { return table_.live(); }
  size_t free() const { return max_live_ - table_.live(); }

 private:
  void Begin(Sequence& sequence, const CheckedOpen& open);
  std::optional<messages::Refusal> MakeDrafter(Sequence& sequence, const CheckedOpen& open);

  const DrafterSet drafters_;
  const size_t max_live_;
  SequenceTable table_;
};

}  // namespace tandem::draft_service
