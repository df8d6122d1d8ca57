// What flows on a stream to a target: Steps out, verdicts and reports in.
#include <utility>
#include <vector>

#include "orchestrator/verify/verify_client.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {

absl::Duration VerifyClient::Link::last_heard() const {
  return absl::Nanoseconds(client_->last_heard_ns_.load(std::memory_order_relaxed));
}

std::unique_ptr<VerifyClient::Link> VerifyClient::Open(uint64_t incarnation,
                                                       std::shared_ptr<VerifyEvents> events) {
  uint64_t id;
  {
    concurrency::MutexLock lock(mutex_);
    if (!IsUp() || incarnation != incarnation_) return nullptr;
    id = ++last_id_;
    links_[id] = {std::move(events), incarnation, 0};
  }
  return std::make_unique<Link>(shared_from_this(), incarnation, id);
}

void VerifyClient::Submit(uint64_t incarnation, uint64_t link, VerifyStep step) {
  {
    concurrency::MutexLock lock(mutex_);
    // The stream that the Step was meant for is gone; the link has been told, or is being told.
    if (state_ != State::kUp || incarnation != incarnation_) return;
    LinkState& state = links_.at(link);
    if (state.sequence == 0) {
      state.sequence = ++last_id_;
      link_of_[state.sequence] = link;
    }
    batches_.Add(ToWire(state.sequence, std::move(step)));
  }
  Flush();
}

void VerifyClient::Remove(uint64_t link) {
  {
    std::shared_ptr<VerifyEvents> released;  // after the lock
    concurrency::MutexLock lock(mutex_);
    auto it = links_.find(link);
    const LinkState& state = it->second;
    if (state.sequence != 0) {
      link_of_.erase(state.sequence);
      if (state_ == State::kUp && state.incarnation == incarnation_) {
        batches_.Close(state.sequence);
      }
    }
    released = std::move(it->second.events);
    links_.erase(it);
    lock.Unlock();
  }
  Flush();
}

bool VerifyClient::Alive(uint64_t incarnation) const {
  concurrency::MutexLock lock(mutex_);
  return IsUp() && incarnation == incarnation_;
}

uint32_t VerifyClient::sequences() const {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kUp) return 0;
  uint32_t count = 0;
  for (const auto& [id, link] : links_) count += link.incarnation == incarnation_ ? 1 : 0;
  return count;
}

// One message at a time is under way. So batches keep their order (a sequence's end follows its
// Steps), and what gets ready meanwhile goes together.
void VerifyClient::Flush() {
  v1::TargetRequest request;
  std::shared_ptr<transport::Sink<v1::TargetRequest>> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kUp || unwritten_ > 0 || batches_.empty()) return;
    *request.mutable_batch() = batches_.Take(options_.max_batch_bytes);
    ++unwritten_;
    sink = sink_;
  }
  sink->Send(std::move(request));  // false: the stream is over, and OnDone tells
}

void VerifyClient::OnWritten(uint64_t incarnation) {
  {
    concurrency::MutexLock lock(mutex_);
    if (incarnation != incarnation_) return;
    --unwritten_;
  }
  Flush();
}

void VerifyClient::OnVerdicts(uint64_t incarnation, const v1::Verdicts& verdicts) {
  last_heard_ns_.store(absl::ToInt64Nanoseconds(clock_.Now()), std::memory_order_relaxed);
  if (verdicts.has_load()) OnLoad(incarnation, verdicts.load());
  for (const v1::Verdict& verdict : verdicts.verdicts()) {
    std::shared_ptr<VerifyEvents> events;
    {
      concurrency::MutexLock lock(mutex_);
      if (incarnation != incarnation_) return;
      auto it = link_of_.find(verdict.sequence());
      if (it == link_of_.end()) continue;  // closed meanwhile
      events = links_.at(it->second).events;
    }
    events->OnVerdict(incarnation, FromWire(verdict));
  }
}

void VerifyClient::OnLoad(uint64_t incarnation, const v1::Load& load) {
  std::vector<TargetPace::CostPoint> curve;
  for (const v1::CostPoint& point : load.cost_curve()) {
    curve.push_back({point.rows(), absl::Microseconds(point.microseconds())});
  }
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kUp || incarnation != incarnation_) return;
    v1::Load kept = load;
    if (kept.cost_curve().empty() && load_.has_value()) {
      *kept.mutable_cost_curve() = load_->cost_curve();
    }
    load_ = std::move(kept);
    pace_->Reported(load.queued_rows(), std::move(curve), clock_.Now());
  }
  if (auto listener = listener_.lock()) listener->OnTargetLoad(incarnation, load.free_slots());
}

}  // namespace tandem::orchestrator
