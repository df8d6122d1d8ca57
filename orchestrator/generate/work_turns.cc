#include "orchestrator/generate/work_turns.h"

#include <algorithm>
#include <utility>

namespace tandem::orchestrator {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

// How long a worker rests at least after a long request (FairExecutor: and as long as it computed).
// To read one costs the threads that carry the rounds of others, which know no turns: half a
// millisecond for 1 MiB. So a worker takes at most 64 MiB per second, also of requests that are
// refused at once.
absl::Duration RestAfter(size_t bytes) {
  return absl::Nanoseconds(static_cast<int64_t>(bytes) * 15);
}

}  // namespace

bool LongWork::IsLong(const std::string& client, size_t bytes) {
  if (bytes > kLongRequest) return true;
  const concurrency::Instant now = clock_.Now();
  concurrency::MutexLock lock(mutex_);
  if (now - began_ >= kSecond) {
    began_ = now;
    spent_.clear();
  }
  size_t& spent = spent_[client];
  spent += bytes;
  return spent > std::max(kLeastShare, kShortBytes / spent_.size());
}

WorkTurns::WorkTurns(const concurrency::Clock& clock, concurrency::Executor& workers,
                     size_t threads, concurrency::Executor* long_workers, size_t long_threads)
    : long_work_(clock), short_turns_(workers, threads) {
  if (long_workers != nullptr) long_turns_.emplace(*long_workers, long_threads);
}

void WorkTurns::Post(const std::string& client, size_t bytes, concurrency::Task task) {
  if (!long_turns_.has_value() || !long_work_.IsLong(client, bytes)) {
    return short_turns_.Post(client, std::move(task));
  }
  long_turns_->Post(client, std::move(task), RestAfter(bytes));
}

}  // namespace tandem::orchestrator
