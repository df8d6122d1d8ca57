#include "target_service/load_reports.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/scheduling/cost_curve.h"

namespace tandem::target_service {
namespace {

uint64_t Microseconds(absl::Duration time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(time)));
}

void AddCurve(const std::vector<scheduling::CostCurve::Point>& points, v1::Load& load) {
  for (const auto& point : points) {
    v1::CostPoint* sent = load.add_cost_curve();
    sent->set_rows(static_cast<uint32_t>(point.rows));
    sent->set_microseconds(
        static_cast<uint32_t>(std::clamp<uint64_t>(Microseconds(point.time), 1, UINT32_MAX)));
  }
}

}  // namespace

v1::Load LoadReports::Now() const {
  const PassCounts& counts = passes_.counts();
  v1::Load load;
  load.set_free_slots(table_.free_slots());
  load.set_queued_rows(static_cast<uint32_t>(waiting_.rows()));
  load.set_passes(counts.passes);
  load.set_pass_rows(counts.rows);
  load.set_pass_sequences(counts.sequences);
  load.set_busy_us(Microseconds(counts.busy));
  return load;
}

v1::Load LoadReports::For(Stream& stream) {
  const concurrency::Instant now = clock_.Now();
  v1::Load load = Now();
  load.set_free_slots(table_.free_slots(stream.id, now));
  load.set_idle_us(Microseconds(now - started_ - passes_.counts().busy));
  std::vector<scheduling::CostCurve::Point> points = passes_.curve().Points();
  if (scheduling::CostCurve::Differs(points, stream.told_curve, kCurveChange)) {
    AddCurve(points, load);
    stream.told_curve = std::move(points);
  }
  return load;
}

void LoadReports::Publish() {
  v1::Load load = Now();
  AddCurve(passes_.curve().Points(), load);
  concurrency::MutexLock lock(mutex_);
  published_.Swap(&load);
}

v1::Load LoadReports::Latest() const {
  v1::Load load;
  {
    concurrency::MutexLock lock(mutex_);
    load = published_;
  }
  const absl::Duration busy = absl::Microseconds(load.busy_us()) + passes_.busy_for();
  load.set_idle_us(Microseconds(clock_.Now() - started_ - busy));
  return load;
}

}  // namespace tandem::target_service
