// What the device's thread tells of its work and its speed.
#include <algorithm>

#include "target_service/device_executor.h"

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

v1::Load DeviceExecutor::CurrentLoad() const {
  v1::Load load;
  load.set_free_slots(table_.free_slots());
  uint32_t rows = 0;
  for (const auto& work : waiting_) rows += static_cast<uint32_t>(work->left());
  load.set_queued_rows(rows);
  load.set_passes(passes_);
  load.set_pass_rows(pass_rows_);
  load.set_pass_sequences(pass_sequences_);
  load.set_busy_us(Microseconds(busy_));
  return load;
}

v1::Load DeviceExecutor::LoadFor(Stream& stream) {
  const absl::Duration now = clock_.Now();
  v1::Load load = CurrentLoad();
  load.set_free_slots(table_.free_slots(stream.id, now));
  load.set_idle_us(Microseconds(now - started_ - busy_));
  std::vector<scheduling::CostCurve::Point> points = curve_.Points();
  if (scheduling::CostCurve::Differs(points, stream.told_curve, kCurveChange)) {
    AddCurve(points, load);
    stream.told_curve = std::move(points);
  }
  return load;
}

void DeviceExecutor::TellLoad() {
  v1::Load load = CurrentLoad();
  AddCurve(curve_.Points(), load);
  concurrency::MutexLock lock(load_mutex_);
  load_.Swap(&load);
}

v1::Load DeviceExecutor::load() const {
  v1::Load load;
  {
    concurrency::MutexLock lock(load_mutex_);
    load = load_;
  }
  const absl::Duration busy = absl::Microseconds(load.busy_us()) + busy_for();
  load.set_idle_us(Microseconds(clock_.Now() - started_ - busy));
  return load;
}

}  // namespace tandem::target_service
