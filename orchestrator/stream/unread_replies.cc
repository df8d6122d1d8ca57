#include "orchestrator/stream/unread_replies.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::orchestrator {

const char* Name(UnreadDrop cause) {
  switch (cause) {
    case UnreadDrop::kPatience:
      return "patience";
    case UnreadDrop::kBytes:
      return "bytes";
  }
  return "unknown";
}

absl::Status UnreadReplies::Admit() {
  concurrency::MutexLock lock(mutex_);
  if (shares_.size() <= limits_.max_calls) return absl::OkStatus();
  ++counts_.refused;
  return absl::ResourceExhaustedError(
      absl::StrCat(shares_.size() - 1, " calls are open, which is the most (--max-open-calls is ",
                   limits_.max_calls, "): try again later"));
}

void UnreadReplies::CountDropped(UnreadDrop cause) {
  concurrency::MutexLock lock(mutex_);
  ++counts_.dropped[static_cast<size_t>(cause)];
}

UnreadCounts UnreadReplies::counts() const {
  concurrency::MutexLock lock(mutex_);
  UnreadCounts counts = counts_;
  counts.calls = shares_.size();
  return counts;
}

uint64_t UnreadReplies::Join() {
  concurrency::MutexLock lock(mutex_);
  shares_.emplace(++last_id_, Share());
  return last_id_;
}

void UnreadReplies::Leave(uint64_t id) {
  Share left;  // after the lock
  concurrency::MutexLock lock(mutex_);
  auto it = shares_.find(id);
  left = std::move(it->second);
  counts_.bytes -= left.bytes;
  shares_.erase(it);
}

void UnreadReplies::SetWhenOver(uint64_t id, WhenOver when_over) {
  concurrency::MutexLock lock(mutex_);
  shares_.at(id).when_over = std::move(when_over);
}

void UnreadReplies::Add(uint64_t id, size_t bytes) {
  std::vector<Ended> ended;
  {
    concurrency::MutexLock lock(mutex_);
    Share& share = shares_.at(id);
    if (share.over) return;
    share.bytes += bytes;
    counts_.bytes += bytes;
    while (counts_.bytes > limits_.max_bytes) ended.push_back(EndLargest());
  }
  for (Ended& one : ended) {
    if (one.tell) one.tell(std::move(one.status));
  }
}

void UnreadReplies::Remove(uint64_t id, size_t bytes) {
  concurrency::MutexLock lock(mutex_);
  Share& share = shares_.at(id);
  if (share.over) return;
  TANDEM_CHECK(bytes <= share.bytes);
  share.bytes -= bytes;
  counts_.bytes -= bytes;
}

// It is among those that are not over: only their bytes are in the sum, which is above 0.
UnreadReplies::Ended UnreadReplies::EndLargest() {
  auto largest = std::max_element(shares_.begin(), shares_.end(), [](const auto& a, const auto& b) {
    return a.second.bytes < b.second.bytes;
  });
  Share& share = largest->second;
  Ended ended{std::move(share.when_over),
              absl::ResourceExhaustedError(absl::StrCat(
                  "replies that clients have not read take ", counts_.bytes, " bytes of at most ",
                  limits_.max_bytes, " (--max-unread-bytes); this call has ", share.bytes,
                  " of them, more than any other: read faster"))};
  counts_.bytes -= std::exchange(share.bytes, 0);
  share.over = true;
  share.when_over = nullptr;
  return ended;
}

UnreadCall::UnreadCall(std::shared_ptr<UnreadReplies> all, size_t max_bytes)
    : all_(std::move(all)), max_bytes_(max_bytes), id_(all_ == nullptr ? 0 : all_->Join()) {}

UnreadCall::~UnreadCall() {
  if (all_ != nullptr) all_->Leave(id_);
}

void UnreadCall::WhenOver(std::function<void(absl::Status)> tell) {
  if (all_ != nullptr) all_->SetWhenOver(id_, std::move(tell));
}

void UnreadCall::Add(size_t bytes) {
  bytes_ += bytes;
  if (all_ != nullptr && bytes > 0) all_->Add(id_, bytes);
}

void UnreadCall::Remove(size_t bytes) {
  TANDEM_CHECK(bytes <= bytes_);
  bytes_ -= bytes;
  if (all_ != nullptr && bytes > 0) all_->Remove(id_, bytes);
}

void UnreadCall::Clear() { Remove(bytes_); }

}  // namespace tandem::orchestrator
