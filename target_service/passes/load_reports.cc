#include "target_service/passes/load_reports.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::target_service {
namespace {

void AddCurve(const std::vector<scheduling::CostCurve::Point>& points, v1::Load& load) {
  for (const auto& point : points) {
    v1::CostPoint* sent = load.add_cost_curve();
    sent->set_rows(static_cast<uint32_t>(point.rows));
    sent->set_microseconds(static_cast<uint32_t>(
        std::clamp<int64_t>(absl::ToInt64Microseconds(point.time), 1, UINT32_MAX)));
  }
}

void AddTokens(std::optional<int64_t> free_tokens, v1::Load& load) {
  if (free_tokens.has_value()) load.set_free_tokens(static_cast<uint64_t>(*free_tokens));
}

}  // namespace

v1::Decoding LoadReports::Decoding() const {
  v1::Decoding decoding;
  decoding.set_sequences(table_.decoding(clock_.Now()));
  decoding.set_pass_rows(static_cast<uint32_t>(passes_.RowsAimedAt()));
  decoding.set_pass_sequences(static_cast<uint32_t>(passes_.MinRounds()));
  decoding.set_draft_tokens(passes_.draft_tokens());
  return decoding;
}

v1::Load LoadReports::For(Stream& stream) {
  v1::Load load = meter_.Snapshot();
  load.set_free_slots(table_.free_slots(stream.id, clock_.Now()));
  AddTokens(table_.free_tokens(stream.id, clock_.Now()), load);
  load.set_queued_rows(static_cast<uint32_t>(waiting_.rows()));
  std::vector<scheduling::CostCurve::Point> points = passes_.curve().Points();
  if (scheduling::CostCurve::Differs(points, stream.told_curve, kCurveChange)) {
    AddCurve(points, load);
    stream.told_curve = std::move(points);
  }
  *load.mutable_decoding() = Decoding();
  return load;
}

void LoadReports::Publish() {
  meter_.SetWaiting(table_.free_slots(), static_cast<uint32_t>(waiting_.rows()));
  std::vector<scheduling::CostCurve::Point> points = passes_.curve().Points();
  concurrency::MutexLock lock(mutex_);
  published_.swap(points);
  published_tokens_ = table_.free_tokens();
  published_decoding_ = Decoding();
}

v1::Load LoadReports::Latest() const {
  v1::Load load = meter_.Snapshot();
  concurrency::MutexLock lock(mutex_);
  AddCurve(published_, load);
  AddTokens(published_tokens_, load);
  *load.mutable_decoding() = published_decoding_;
  return load;
}

}  // namespace tandem::target_service
