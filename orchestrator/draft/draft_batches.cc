#include "orchestrator/draft/draft_batches.h"

#include <algorithm>

#include "common/messages/limits.h"
#include "orchestrator/draft/draft_wire.h"

namespace tandem::orchestrator {

void DraftBatches::Close(base::SequenceId sequence) {
  const auto of_it = [sequence](const auto& waiting) { return waiting.first == sequence; };
  if (std::erase_if(opens_, of_it) > 0) return;
  std::erase_if(requests_, of_it);
  internal::v1::DraftRequest request;
  request.mutable_close()->set_sequence(base::Number(sequence));
  Add(sequence, std::move(request));
}

internal::v1::DraftRequest DraftBatches::Take(size_t max_bytes,
                                              std::vector<base::SequenceId>& opened) {
  internal::v1::DraftRequest message;
  size_t bytes = 0;
  int taken = 0;
  const auto take = [&](internal::v1::DraftRequest& request) {
    const size_t more = request.ByteSizeLong() + 8;
    if (taken == messages::kMaxDraftRequests || (taken > 0 && bytes + more > max_bytes))
      return false;
    (taken++ == 0 ? message : *message.add_next()) = std::move(request);
    bytes += more;
    return true;
  };
  if (!open_is_next_) {
    while (!requests_.empty() && take(requests_.front().second)) requests_.pop_front();
  }
  while (!opens_.empty()) {
    internal::v1::DraftRequest request;
    *request.mutable_open() = ToWire(opens_.front().first, opens_.front().second);
    if (!take(request)) break;
    opened.push_back(opens_.front().first);
    opens_.pop_front();
  }
  open_is_next_ = !open_is_next_ && !opens_.empty();
  return message;
}

}  // namespace tandem::orchestrator
