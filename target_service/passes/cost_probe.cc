#include "target_service/passes/cost_probe.h"

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
constexpr int kLeastTimes = 2;  // that the first point is measured

}  // namespace

absl::Status MeasureCosts(Engine& engine, const concurrency::Clock& clock, absl::Duration time,
                          scheduling::CostCurve& curve) {
  int room = engine.info().max_rows;  // as far as is known
  const concurrency::Instant started = clock.Now();
  std::vector<scheduling::CostCurve::Point> points;
  absl::Status failed;
  // What it gave room for; 0: there is none, or it failed, which ends it.
  auto probe = [&](int rows, absl::Duration& least) {
    const absl::StatusOr<ProbedPass> probed = engine.Probe(rows);
    if (!probed.ok()) {
      TANDEM_LOG(kWarning) << base::LogFields("measuring_failed")
                                  .Add("rows", rows)
                                  .Add("status", probed.status().ToString());
      failed = probed.status();
      return 0;
    }
    if (probed->rows > 0) least = std::min(least, probed->computed);
    return probed->rows;
  };
  // The first pass of a process reads its weights into memory and starts its threads.
  absl::Duration warm_up = absl::InfiniteDuration();
  if (probe(1, warm_up) == 0) return failed;
  // Several times all over, so that what disturbs the machine for a while does not spoil a point.
  const concurrency::Instant began = clock.Now();
  auto fits = [&](absl::Duration expected) { return clock.Now() - began + expected <= time; };
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
      for (int times = sweep == 0 ? kLeastTimes : 1; times > 0; --times) {
        const bool measured = points[i].time != absl::InfiniteDuration();
        if (i > 0 && measured && !fits(points[i].time)) break;
        const int rows = probe(points[i].rows, points[i].time);
        if (rows == 0) return failed;
        if (rows < points[i].rows) room = points[i].rows = rows;
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
                           .Add("took", clock.Now() - started)
                           .Add("warm_up", warm_up)
                           .Add("us_by_rows", measured);
  return absl::OkStatus();
}

}  // namespace tandem::target_service
