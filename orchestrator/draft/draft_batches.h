// What waits to be written on a Propose stream. It is taken out as messages of many requests.
//
// Prompts (Open) give way to rounds in every other message, so a round waits for one prompt at
// most, however many begin. Samples share the tokens of a prompt, and an Open gets its copy only
// when it is taken out.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "orchestrator/draft/draft_session.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::orchestrator {

class DraftBatches {
 public:
  void Open(base::SequenceId sequence, DraftOpen open) {
    opens_.emplace_back(sequence, std::move(open));
  }
  // Of a sequence whose Open was taken out.
  void Add(base::SequenceId sequence, internal::v1::DraftRequest request) {
    requests_.emplace_back(sequence, std::move(request));
  }
  // Ends a sequence: what waits of it is dropped, and the draft is told if its Open was taken out.
  void Close(base::SequenceId sequence);
  size_t size() const { return opens_.size() + requests_.size(); }

  // The next message, of something that waits: as many as fit into `max_bytes`, at least one. Adds
  // to `opened` whose Opens are in it.
  internal::v1::DraftRequest Take(size_t max_bytes, std::vector<base::SequenceId>& opened);

 private:
  std::deque<std::pair<base::SequenceId, DraftOpen>> opens_;
  std::deque<std::pair<base::SequenceId, internal::v1::DraftRequest>> requests_;
  bool open_is_next_ = false;  // one had no room in the last message
};

}  // namespace tandem::orchestrator
