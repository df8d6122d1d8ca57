#include "orchestrator/generate/answer_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tandem::orchestrator {

AnswerReader::AnswerReader(const GenerateParts& parts, std::function<void(absl::Status)> drop)
    : parts_(parts), drop_(std::move(drop)), unread_(parts.unread) {
  unread_.WhenOver([unread = parts.unread, drop = drop_](absl::Status status) {
    if (unread != nullptr) unread->CountDropped(UnreadDrop::kBytes);
    drop(std::move(status));
  });
}

absl::Status AnswerReader::Admit() {
  return parts_.unread == nullptr ? absl::OkStatus() : parts_.unread->Admit();
}

void AnswerReader::OnAnswer(size_t bytes) {
  unread_.Add(bytes);
  concurrency::MutexLock lock(mutex_);
  if (over_) return;
  timer_ = parts_.timers->After(parts_.loop.abort_after, [unread = parts_.unread, drop = drop_,
                                                          patience = parts_.loop.abort_after] {
    if (unread != nullptr) unread->CountDropped(UnreadDrop::kPatience);
    drop(absl::AbortedError(
        absl::StrCat("the client did not read the answer for ", absl::FormatDuration(patience))));
  });
}

void AnswerReader::OnOver() {
  concurrency::MutexLock lock(mutex_);
  over_ = true;
  if (timer_ != 0) parts_.timers->Cancel(std::exchange(timer_, 0));
}

}  // namespace tandem::orchestrator
