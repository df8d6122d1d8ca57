#include "target_service/cost_probe.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/concurrency/instant.h"

namespace tandem::target_service {
namespace {

constexpr int kSweeps = 4;

}  // namespace

void MeasureCosts(Engine& engine, const concurrency::Clock& clock, absl::Duration time,
                  scheduling::CostCurve& curve) {
  int room = engine.info().max_rows;  // as far as is known
  // Several times all over, so that what disturbs the machine for a while does not spoil a point.
  const concurrency::Instant began = clock.Now();
  auto fits = [&](absl::Duration expected) { return clock.Now() - began + expected <= time; };
  std::vector<scheduling::CostCurve::Point> points;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0;; ++i) {
      if (i == points.size()) {
        const int rows = points.empty() ? 1 : std::min(2 * points.back().rows, room);
        if (sweep > 0 || (!points.empty() && rows == points.back().rows)) break;
        // The first one warms up what is made for so many rows.
        if (!points.empty() && !fits(4 * points.back().time)) break;
        points.push_back({rows, absl::InfiniteDuration()});
      } else if (!fits(points[i].time)) {
        break;
      }
      for (int times = sweep == 0 ? 2 : 1; times > 0; --times) {
        if (points[i].time != absl::InfiniteDuration() && !fits(points[i].time)) break;
        const absl::StatusOr<ProbedPass> probed = engine.Probe(points[i].rows);
        if (!probed.ok()) {
          TANDEM_LOG(kWarning) << base::LogFields("measuring_failed")
                                      .Add("rows", points[i].rows)
                                      .Add("status", probed.status().ToString());
          return;
        }
        if (probed->rows == 0) return;
        if (probed->rows < points[i].rows) room = points[i].rows = probed->rows;
        points[i].time = std::min(points[i].time, probed->computed);
      }
    }
  }
  std::string measured;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& point = points[i];
    // There was no more room than for the point before it.
    if (i > 0 && point.rows == points[i - 1].rows) break;
    curve.Observe(point.rows, point.time);
    absl::StrAppend(&measured, measured.empty() ? "" : ",", point.rows, ":",
                    absl::ToInt64Microseconds(point.time));
  }
  TANDEM_LOG(kInfo) << base::LogFields("passes_measured")
                           .Add("took", clock.Now() - began)
                           .Add("us_by_rows", measured);
}

}  // namespace tandem::target_service
