#include "orchestrator/generate/admission.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/messages/status_details.h"

namespace tandem::orchestrator {
namespace {

absl::Status Draining() {
  return absl::UnavailableError("the orchestrator is shutting down: ask another one");
}

std::string Readable(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

}  // namespace

Admission::Admission(const AdmissionOptions& options, concurrency::Timers& timers,
                     const concurrency::Clock& clock)
    : options_(options), timers_(timers), clock_(clock) {
  TANDEM_CHECK(options_.max_active > 0);
}

void Admission::Ask(uint64_t id, uint32_t priority, const std::string& client,
                    concurrency::Instant deadline, Decided decided) {
  const concurrency::Instant now = clock_.Now();
  absl::Status told;
  {
    concurrency::MutexLock lock(mutex_);
    TANDEM_CHECK(!active_.contains(id) && !waiting_.contains(id)) << "id " << id << " asks again";
    if (draining_) {
      told = Draining();
    } else if (running() < options_.max_active) {
      active_.insert(id);
    } else {
      Waiting gives_way;
      if (line_.size() >= options_.max_waiting) {
        told = Full(now);
        if (const auto other = line_.GivesWayTo(priority, client)) {
          gives_way = TakeFromLine(*other, /*had_turn=*/false);
        }
      }
      if (line_.size() < options_.max_waiting) {
        if (line_.empty()) pace_.OnBegun(now);
        line_.Join(id, priority, client);
        waiting_.emplace(id, Waiting{now, 0, std::move(decided)});
        lock.Unlock();
        if (gives_way.decided) Tell(std::move(gives_way), std::move(told));
        return SetTimer(id, Patience(deadline, now));
      }
    }
  }
  Tell({now, 0, std::move(decided)}, std::move(told));
}

absl::Status Admission::Full(concurrency::Instant now) const {
  absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      running(), " requests are active, which is the most",
      options_.max_waiting == 0 ? std::string(", and none may wait")
                                : absl::StrCat(", and ", line_.size(), " wait: the line is full"),
      ": try again later"));
  messages::AddRetryInfo(pace_.TimeFor(line_.size() + 1, now), full);
  return full;
}

absl::Duration Admission::Patience(concurrency::Instant deadline, concurrency::Instant now) const {
  if (deadline == concurrency::Instant::InfiniteFuture()) return options_.patience;
  const absl::Duration left = std::max(deadline - now, absl::ZeroDuration());
  return left - std::min(left / 10, kAnswerTime);
}

// Called without the lock, so the request may have left or been admitted before the timer is set.
void Admission::SetTimer(uint64_t id, absl::Duration patience) {
  const concurrency::TimerId timer = timers_.After(patience, [weak = weak_from_this(), id] {
    if (auto self = weak.lock()) self->Expire(id);
  });
  {
    concurrency::MutexLock lock(mutex_);
    auto waiting = waiting_.find(id);
    if (waiting != waiting_.end()) {
      waiting->second.timer = timer;
      return;
    }
  }
  timers_.Cancel(timer);
}

void Admission::Expire(uint64_t id) {
  Waiting waiting;
  absl::Status status;
  {
    concurrency::MutexLock lock(mutex_);
    auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    const concurrency::Instant now = clock_.Now();
    const std::vector<uint64_t> order = line_.InOrder();
    const auto ahead = std::distance(order.begin(), std::find(order.begin(), order.end(), id));
    status = absl::ResourceExhaustedError(absl::StrCat(
        "waited ", Readable(now - it->second.since), " for one of ", options_.max_active,
        " places; requests ahead of it: ", ahead, ": try again later"));
    messages::AddRetryInfo(pace_.TimeFor(static_cast<size_t>(ahead) + 1, now), status);
    waiting = TakeFromLine(id, /*had_turn=*/false);
  }
  Tell(std::move(waiting), std::move(status));
}

void Admission::Leave(uint64_t id) {
  Waiting left, next;
  {
    concurrency::MutexLock lock(mutex_);
    if (waiting_.contains(id)) {
      left = TakeFromLine(id, /*had_turn=*/false);
    } else {
      active_.erase(id);
      paused_.erase(id);
      next = AdmitNext();
    }
  }
  if (left.timer != 0) timers_.Cancel(left.timer);
  if (next.decided) Tell(std::move(next), absl::OkStatus());
}

void Admission::Pause(uint64_t id) {
  Waiting next;
  {
    concurrency::MutexLock lock(mutex_);
    if (active_.contains(id)) paused_.insert(id);
    next = AdmitNext();
  }
  if (next.decided) Tell(std::move(next), absl::OkStatus());
}

void Admission::Resume(uint64_t id) {
  concurrency::MutexLock lock(mutex_);
  paused_.erase(id);
}

Admission::Waiting Admission::AdmitNext() {
  if (line_.empty() || running() >= options_.max_active) return {};
  pace_.OnMoved(clock_.Now());
  const uint64_t id = line_.Front();
  active_.insert(id);
  return TakeFromLine(id, /*had_turn=*/true);
}

void Admission::Drain() {
  std::vector<Waiting> all;
  {
    concurrency::MutexLock lock(mutex_);
    draining_ = true;
    for (const uint64_t id : line_.InOrder()) all.push_back(TakeFromLine(id, /*had_turn=*/false));
  }
  for (Waiting& waiting : all) Tell(std::move(waiting), Draining());
}

Admission::Waiting Admission::TakeFromLine(uint64_t id, bool had_turn) {
  line_.Leave(id, had_turn);
  return std::move(waiting_.extract(id).mapped());
}

void Admission::Tell(Waiting waiting, absl::Status status) {
  if (waiting.timer != 0) timers_.Cancel(waiting.timer);
  const absl::Duration waited = clock_.Now() - waiting.since;
  told_.Post([decided = std::move(waiting.decided), status = std::move(status), waited]() mutable {
    decided(std::move(status), waited);
  });
}

size_t Admission::active() const {
  concurrency::MutexLock lock(mutex_);
  return active_.size();
}

size_t Admission::waiting() const {
  concurrency::MutexLock lock(mutex_);
  return line_.size();
}

}  // namespace tandem::orchestrator
