// What a call with one answer holds until its client has read it: counted with the replies of all
// calls, and dropped when the client does not read it in time.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/generate/generate_parts.h"
#include "orchestrator/stream/unread_replies.h"

namespace tandem::orchestrator {

// Thread-safe.
class AnswerReader {
 public:
  // `parts` outlive this object. `drop` ends the call with a status, ahead of its answer; it is
  // called on any thread, maybe inside OnAnswer, and maybe when the call is over.
  AnswerReader(const GenerateParts& parts, std::function<void(absl::Status)> drop);

  // RESOURCE_EXHAUSTED: too many calls are open with this one.
  absl::Status Admit();
  // An answer that takes so many bytes waits for its client. Once.
  void OnAnswer(size_t bytes);
  // The call is over.
  void OnOver();

 private:
  const GenerateParts& parts_;
  const std::function<void(absl::Status)> drop_;
  concurrency::Mutex mutex_;
  UnreadCall unread_;
  bool over_ TANDEM_GUARDED_BY(mutex_) = false;
  concurrency::TimerId timer_ TANDEM_GUARDED_BY(mutex_) = 0;  // 0: not set
};

}  // namespace tandem::orchestrator
