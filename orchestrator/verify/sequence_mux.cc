#include "orchestrator/verify/sequence_mux.h"

#include <utility>

#include "common/base/check.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {

// ---- the stream's life ----

void SequenceMux::Begin(std::shared_ptr<Sink> sink) {
  concurrency::MutexLock lock(mutex_);
  sink_ = std::move(sink);
}

void SequenceMux::Up() {
  concurrency::MutexLock lock(mutex_);
  if (state_ == State::kGreeting) state_ = State::kUp;
}

void SequenceMux::GivenUp() {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kOver) state_ = State::kGivenUp;
}

SequenceMux::EventsList SequenceMux::End() {
  std::shared_ptr<Sink> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  state_ = State::kOver;
  released = std::move(sink_);
  batches_.Clear();
  EventsList all;
  all.reserve(sequences_.size());
  for (const auto& [id, sequence] : sequences_) all.push_back(sequence.events);
  return all;
}

// ---- its sequences ----

std::unique_ptr<SequenceMux::Link> SequenceMux::Open(base::SequenceId sequence,
                                                     std::shared_ptr<VerifyEvents> events) {
  {
    concurrency::MutexLock lock(mutex_);
    if (state_ != State::kUp) return nullptr;
    const bool is_new = sequences_.try_emplace(sequence).second;
    TANDEM_CHECK(is_new) << "sequence " << sequence << " is open already";
    sequences_.at(sequence).events = std::move(events);
  }
  return std::make_unique<Link>(shared_from_this(), sequence);
}

void SequenceMux::Submit(base::SequenceId sequence, VerifyStep step) {
  {
    concurrency::MutexLock lock(mutex_);
    if (!Sends()) return;  // its owner has been told of the end, or is being told
    sequences_.at(sequence).begun = true;
    batches_.Add(sequence, std::move(step));
  }
  Flush();
}

void SequenceMux::SetParked(base::SequenceId sequence, bool parked) {
  concurrency::MutexLock lock(mutex_);
  Sequence& entry = sequences_.at(sequence);
  if (std::exchange(entry.parked, parked) == parked) return;
  parked_ += parked ? 1 : -1;
  entry.taken = false;
}

bool SequenceMux::taken(base::SequenceId sequence) const {
  concurrency::MutexLock lock(mutex_);
  return sequences_.at(sequence).taken;
}

void SequenceMux::Remove(base::SequenceId sequence) {
  {
    std::shared_ptr<VerifyEvents> released;  // after the lock
    concurrency::MutexLock lock(mutex_);
    auto it = sequences_.find(sequence);
    if (it->second.begun && Sends()) batches_.Close(sequence);
    if (it->second.parked) --parked_;
    released = std::move(it->second.events);
    sequences_.erase(it);
    lock.Unlock();
  }
  Flush();
}

bool SequenceMux::alive() const {
  concurrency::MutexLock lock(mutex_);
  return state_ == State::kUp;
}

uint32_t SequenceMux::sequences() const {
  concurrency::MutexLock lock(mutex_);
  return static_cast<uint32_t>(sequences_.size()) - parked_;
}

// ---- what the stream says ----

void SequenceMux::Flush() {
  internal::v1::TargetRequest request;
  std::shared_ptr<Sink> sink;
  {
    concurrency::MutexLock lock(mutex_);
    if (!Sends() || !turns_.Take(batches_.size(), shared_from_this())) return;
    *request.mutable_batch() = batches_.Take(max_batch_bytes_);
    sink = sink_;
  }
  sink->Send(std::move(request));  // false: the stream is over, and OnDone tells
}

void SequenceMux::OnWritten() {
  {
    concurrency::MutexLock lock(mutex_);
    turns_.Written();
  }
  Flush();
}

void SequenceMux::OnVerdicts(const internal::v1::Verdicts& verdicts) {
  const Delivery delivery;
  for (const internal::v1::Verdict& verdict : verdicts.verdicts()) {
    std::shared_ptr<VerifyEvents> events;
    {
      concurrency::MutexLock lock(mutex_);
      auto it = sequences_.find(base::SequenceId{verdict.sequence()});
      if (it == sequences_.end() || !it->second.begun) continue;  // closed meanwhile
      if (verdict.status() != internal::v1::STATUS_NO_SLOT) it->second.taken = true;
      events = it->second.events;
    }
    events->OnVerdict(incarnation_, FromWire(verdict));
  }
}

}  // namespace tandem::orchestrator
