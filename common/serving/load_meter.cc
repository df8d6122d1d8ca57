#include "common/serving/load_meter.h"

#include <algorithm>

namespace tandem::serving {
namespace {

using concurrency::MutexLock;

uint64_t Microseconds(absl::Duration time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(time)));
}

}  // namespace

LoadMeter::LoadMeter(const concurrency::Clock& clock) : clock_(clock), began_(clock.Now()) {}

void LoadMeter::BeginWork() {
  const concurrency::Instant now = clock_.Now();
  MutexLock lock(mutex_);
  if (!working_since_.has_value()) working_since_ = now;
}

void LoadMeter::EndWork() {
  const concurrency::Instant now = clock_.Now();
  MutexLock lock(mutex_);
  if (working_since_.has_value()) worked_ += now - *working_since_;
  working_since_.reset();
}

void LoadMeter::BeginPass() {
  const concurrency::Instant now = clock_.Now();
  MutexLock lock(mutex_);
  if (!working_since_.has_value()) working_since_ = now;
  is_pass_ = true;
}

void LoadMeter::EndPass(absl::Duration computed) {
  MutexLock lock(mutex_);
  worked_ += computed;
  working_since_.reset();
  is_pass_ = false;
}

void LoadMeter::CountPass(uint64_t rows, uint64_t sequences) {
  MutexLock lock(mutex_);
  load_.set_passes(load_.passes() + 1);
  load_.set_pass_rows(load_.pass_rows() + rows);
  load_.set_pass_sequences(load_.pass_sequences() + sequences);
}

void LoadMeter::SetWaiting(uint32_t free_slots, uint32_t queued_rows) {
  MutexLock lock(mutex_);
  load_.set_free_slots(free_slots);
  load_.set_queued_rows(queued_rows);
}

v1::Load LoadMeter::Snapshot() const {
  MutexLock lock(mutex_);
  // Read with the lock held, so that a later snapshot is never behind an earlier one.
  const concurrency::Instant now = clock_.Now();
  v1::Load load = load_;
  const absl::Duration running =
      working_since_.has_value() ? now - *working_since_ : absl::ZeroDuration();
  load.set_busy_us(Microseconds(is_pass_ ? worked_ : worked_ + running));
  load.set_idle_us(Microseconds(now - began_ - worked_ - running));
  return load;
}

absl::Duration LoadMeter::working_for() const {
  MutexLock lock(mutex_);
  return working_since_.has_value() ? clock_.Now() - *working_since_ : absl::ZeroDuration();
}

}  // namespace tandem::serving
