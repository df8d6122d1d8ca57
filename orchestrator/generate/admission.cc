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

void Admission::Ask(uint64_t id, uint32_t priority, concurrency::Instant deadline,
                    Decided decided) {
  const concurrency::Instant now = clock_.Now();
  absl::Status told;
  {
    concurrency::MutexLock lock(mutex_);
    TANDEM_CHECK(!active_.contains(id) && !turns_.contains(id)) << "id " << id << " asks again";
    if (draining_) {
      told = Draining();
    } else if (active_.size() < options_.max_active) {
      active_.insert(id);
    } else if (line_.size() >= options_.max_waiting) {
      told = absl::ResourceExhaustedError(
          absl::StrCat(active_.size(), " requests are active, which is the most",
                       options_.max_waiting == 0
                           ? std::string(", and none may wait")
                           : absl::StrCat(", and ", line_.size(), " wait: the line is full"),
                       ": try again later"));
      messages::AddRetryInfo(pace_.TimeFor(line_.size() + 1, now), told);
    } else {
      if (line_.empty()) pace_.OnBegun(now);
      const Turn turn{priority, ++last_arrival_};
      line_.emplace(turn, Waiting{id, now, 0, std::move(decided)});
      turns_.emplace(id, turn);
      lock.Unlock();
      return SetTimer(id, Patience(deadline, now));
    }
  }
  Tell({id, now, 0, std::move(decided)}, std::move(told));
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
    auto turn = turns_.find(id);
    if (turn != turns_.end()) {
      line_.at(turn->second).timer = timer;
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
    auto turn = turns_.find(id);
    if (turn == turns_.end()) return;
    auto it = line_.find(turn->second);
    const concurrency::Instant now = clock_.Now();
    const auto ahead = std::distance(line_.begin(), it);
    status = absl::ResourceExhaustedError(absl::StrCat(
        "waited ", Readable(now - it->second.since), " for one of ", options_.max_active,
        " places; requests ahead of it: ", ahead, ": try again later"));
    messages::AddRetryInfo(pace_.TimeFor(static_cast<size_t>(ahead) + 1, now), status);
    waiting = TakeFromLine(it);
  }
  Tell(std::move(waiting), std::move(status));
}

void Admission::Leave(uint64_t id) {
  Waiting left, next;
  bool admitted = false;
  {
    concurrency::MutexLock lock(mutex_);
    if (auto turn = turns_.find(id); turn != turns_.end()) {
      left = TakeFromLine(line_.find(turn->second));
    } else if (active_.erase(id) > 0 && !line_.empty()) {
      pace_.OnMoved(clock_.Now());
      next = TakeFromLine(line_.begin());
      active_.insert(next.id);
      admitted = true;
    }
  }
  if (left.timer != 0) timers_.Cancel(left.timer);
  if (admitted) Tell(std::move(next), absl::OkStatus());
}

void Admission::Drain() {
  std::vector<Waiting> all;
  {
    concurrency::MutexLock lock(mutex_);
    draining_ = true;
    all.reserve(line_.size());
    for (auto& [turn, waiting] : line_) all.push_back(std::move(waiting));
    line_.clear();
    turns_.clear();
  }
  for (Waiting& waiting : all) Tell(std::move(waiting), Draining());
}

Admission::Waiting Admission::TakeFromLine(Line::iterator it) {
  Waiting waiting = std::move(it->second);
  turns_.erase(waiting.id);
  line_.erase(it);
  return waiting;
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
