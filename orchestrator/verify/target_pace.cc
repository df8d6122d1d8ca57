#include "orchestrator/verify/target_pace.h"

#include <algorithm>
#include <utility>

#include "common/speculation/candidate_tree.h"

namespace tandem::orchestrator {
namespace {

// Before anything was measured: a large model on few cores.
constexpr absl::Duration kFirstRound = absl::Milliseconds(250);
constexpr absl::Duration kFirstPerToken = absl::Milliseconds(10);
constexpr double kWeight = 0.2;       // of a new measurement
constexpr double kRemembered = 0.99;  // of the slowest round, with each further one

bool IsCurve(const std::vector<TargetPace::CostPoint>& points) {
  return points.size() <= TargetPace::kMaxCostPoints &&
         std::is_sorted(points.begin(), points.end(),
                        [](const auto& a, const auto& b) { return a.rows < b.rows; });
}

void Average(absl::Duration measured, absl::Duration& average) {
  average =
      average == absl::ZeroDuration() ? measured : measured * kWeight + average * (1 - kWeight);
}

}  // namespace

void TargetPace::Submitted(uint32_t rows) {
  concurrency::MutexLock lock(mutex_);
  rows_under_way_ += rows;
  rows_since_report_ += rows;
}

void TargetPace::Answered(uint32_t rows, absl::Duration elapsed) {
  concurrency::MutexLock lock(mutex_);
  Left(rows);
  ++answers_;
  if (rows <= kRoundRows) {
    Average(elapsed, round_);
    slowest_ = std::max(elapsed, slowest_ * kRemembered);
  } else {
    Average(elapsed / rows, per_token_);
  }
}

void TargetPace::Forgotten(uint32_t rows) {
  concurrency::MutexLock lock(mutex_);
  Left(rows);
}

void TargetPace::Left(uint32_t rows) {
  rows_under_way_ -= std::min<uint64_t>(rows, rows_under_way_);
  rows_since_report_ = std::min(rows_since_report_, rows_under_way_);
}

void TargetPace::Reported(uint32_t queued_rows, std::vector<CostPoint> curve,
                          concurrency::Instant now) {
  concurrency::MutexLock lock(mutex_);
  reported_rows_ = queued_rows;
  reported_at_ = now;
  rows_since_report_ = 0;
  if (!curve.empty() && IsCurve(curve)) curve_ = std::move(curve);
}

void TargetPace::Decodes(const DecodingLoad& decoding) {
  concurrency::MutexLock lock(mutex_);
  decoding_ = decoding;
  for (uint32_t* count : {&decoding_.sequences, &decoding_.pass_rows, &decoding_.pass_sequences}) {
    *count = std::min(*count, kMaxSequences);
  }
  const double draft_tokens = decoding.draft_tokens.value_or(0);
  if (!(draft_tokens >= 0 && draft_tokens <= speculation::kMaxTreeNodes)) {
    decoding_.draft_tokens.reset();
  }
}

void TargetPace::StreamBegan(const std::string& process, std::vector<CostPoint> curve) {
  if (!IsCurve(curve)) curve.clear();
  concurrency::MutexLock lock(mutex_);
  if (process != process_) answers_ = 0;
  process_ = process;
  reported_rows_ = 0;
  rows_since_report_ = 0;
  decoding_ = {};
  curve_ = std::move(curve);
}

uint64_t TargetPace::answers() const {
  concurrency::MutexLock lock(mutex_);
  return answers_;
}

absl::Duration TargetPace::Round() const {
  concurrency::MutexLock lock(mutex_);
  return round_;
}

absl::Duration TargetPace::PassTime(uint32_t rows) const {
  concurrency::MutexLock lock(mutex_);
  if (curve_.empty()) return absl::ZeroDuration();
  const CostPoint& last = curve_.back();
  if (rows < last.rows) return ByCurve(rows);
  return last.time * (static_cast<double>(rows) / std::max(last.rows, 1u));
}

DecodingLoad TargetPace::Decoding() const {
  concurrency::MutexLock lock(mutex_);
  return decoding_;
}

uint64_t TargetPace::QueuedRows(concurrency::Instant now) const {
  concurrency::MutexLock lock(mutex_);
  return Queued(now);
}

uint64_t TargetPace::Queued(concurrency::Instant now) const {
  const bool stale = rows_under_way_ == 0 && now - reported_at_ > kReportLife;
  return (stale ? 0 : reported_rows_) + rows_since_report_;
}

absl::Duration TargetPace::Expected(uint32_t rows, concurrency::Instant now) const {
  concurrency::MutexLock lock(mutex_);
  // What the target reports as waiting may be ours; what it computes just now is not reported.
  const uint64_t all = std::max(Queued(now), rows_under_way_) + rows;
  const absl::Duration least = std::max(round_, slowest_ / 2);
  const absl::Duration reported = std::max(curve_.empty() ? ByOwnTimes(all) : ByCurve(all), least);
  return std::min(reported, std::max(kMaxReportedTime, ByOwnTimes(rows_under_way_ + rows)));
}

absl::Duration TargetPace::ByOwnTimes(uint64_t rows) const {
  const absl::Duration round = round_ == absl::ZeroDuration() ? kFirstRound : round_;
  const absl::Duration per_token = per_token_ == absl::ZeroDuration()
                                       ? std::max(kFirstPerToken, round_ / kRoundRows)
                                       : per_token_;
  return rows <= kRoundRows ? round : round + per_token * static_cast<double>(rows);
}

// Between two points the time is interpolated. Beyond the last point it is that of as many passes
// of that size as needed, and of the one that is under way.
absl::Duration TargetPace::ByCurve(uint64_t rows) const {
  const CostPoint& last = curve_.back();
  if (rows >= last.rows) {
    return last.time * (static_cast<double>(rows) / std::max(last.rows, 1u) + 1);
  }
  auto above = std::find_if(curve_.begin(), curve_.end(),
                            [rows](const CostPoint& point) { return point.rows >= rows; });
  if (above == curve_.begin()) return above->time;
  const CostPoint& below = *(above - 1);
  const double part =
      static_cast<double>(rows - below.rows) / static_cast<double>(above->rows - below.rows);
  return below.time + (above->time - below.time) * part;
}

}  // namespace tandem::orchestrator
