#include "orchestrator/verify/target_pace.h"

#include <algorithm>

namespace tandem::orchestrator {
namespace {

// Before anything was measured: a large model on few cores.
constexpr absl::Duration kFirstRound = absl::Milliseconds(250);
constexpr absl::Duration kFirstPerToken = absl::Milliseconds(10);
constexpr double kWeight = 0.2;  // of a new measurement

void Average(absl::Duration measured, absl::Duration& average) {
  average =
      average == absl::ZeroDuration() ? measured : measured * kWeight + average * (1 - kWeight);
}

}  // namespace

void TargetPace::Submitted(uint32_t rows) {
  concurrency::MutexLock lock(mutex_);
  rows_under_way_ += rows;
}

void TargetPace::Answered(uint32_t rows, absl::Duration elapsed) {
  concurrency::MutexLock lock(mutex_);
  rows_under_way_ -= std::min<uint64_t>(rows, rows_under_way_);
  if (rows <= kRoundRows) {
    Average(elapsed, round_);
  } else {
    Average(elapsed / rows, per_token_);
  }
}

void TargetPace::Forgotten(uint32_t rows) {
  concurrency::MutexLock lock(mutex_);
  rows_under_way_ -= std::min<uint64_t>(rows, rows_under_way_);
}

absl::Duration TargetPace::Round() const {
  concurrency::MutexLock lock(mutex_);
  return round_;
}

absl::Duration TargetPace::Expected(uint32_t rows) const {
  concurrency::MutexLock lock(mutex_);
  const absl::Duration round = round_ == absl::ZeroDuration() ? kFirstRound : round_;
  const absl::Duration per_token = per_token_ == absl::ZeroDuration()
                                       ? std::max(kFirstPerToken, round_ / kRoundRows)
                                       : per_token_;
  const uint64_t all = rows_under_way_ + rows;
  return all <= kRoundRows ? round : round + per_token * static_cast<double>(all);
}

}  // namespace tandem::orchestrator
