#include "target_service/cost_probe.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"

namespace tandem::target_service {
namespace {

constexpr int kRowsOfACache = 32;  // as much as a round has at most, more or less
constexpr int kSweeps = 4;

using Caches = std::vector<std::unique_ptr<model::Cache>>;

Caches ScratchCaches(model::LanguageModel& model) {
  const int room = std::min<int>(kRowsOfACache, static_cast<int>(model.info().context_length));
  Caches caches;
  for (int rows = 0; rows < model.max_rows(); rows += room) {
    auto cache = model.NewCache(room);
    if (!cache.ok()) break;
    caches.push_back(*std::move(cache));
  }
  return caches;
}

absl::StatusOr<absl::Duration> TimeOf(int rows, Caches& caches, model::LanguageModel& model,
                                      const concurrency::Clock& clock) {
  const std::vector<uint32_t> tokens(kRowsOfACache, 0);
  std::vector<model::StepPart> parts;
  for (auto& cache : caches) {
    if (rows == 0) break;
    const int taken = std::min(rows, cache->max_length());
    cache->Truncate(0);
    parts.push_back(
        {cache.get(), absl::MakeConstSpan(tokens).first(static_cast<size_t>(taken)), 0});
    rows -= taken;
  }
  const absl::Duration began = clock.Now();
  const absl::StatusOr<model::Logits> logits = model.Step(parts);
  if (!logits.ok()) return logits.status();
  return clock.Now() - began;
}

}  // namespace

void MeasureCosts(model::LanguageModel& model, const concurrency::Clock& clock, absl::Duration time,
                  scheduling::CostCurve& curve) {
  Caches caches = ScratchCaches(model);
  int room = 0;
  for (const auto& cache : caches) room += cache->max_length();
  room = std::min(room, model.max_rows());

  // Several times all over, so that what disturbs the machine for a while does not spoil a point.
  const absl::Duration began = clock.Now();
  auto fits = [&](absl::Duration expected) { return clock.Now() - began + expected <= time; };
  std::vector<scheduling::CostCurve::Point> points;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0;; ++i) {
      if (i == points.size()) {
        const int rows = points.empty() ? 1 : std::min(2 * points.back().rows, room);
        if (sweep > 0 || rows > room || (!points.empty() && rows == points.back().rows)) break;
        // The first one warms up what is made for so many rows.
        if (!points.empty() && !fits(4 * points.back().time)) break;
        points.push_back({rows, absl::InfiniteDuration()});
      } else if (!fits(points[i].time)) {
        break;
      }
      for (int times = sweep == 0 ? 2 : 1; times > 0; --times) {
        if (points[i].time != absl::InfiniteDuration() && !fits(points[i].time)) break;
        const auto took = TimeOf(points[i].rows, caches, model, clock);
        if (!took.ok()) {
          TANDEM_LOG(kWarning) << base::LogFields("measuring_failed")
                                      .Add("rows", points[i].rows)
                                      .Add("status", took.status().ToString());
          return;
        }
        points[i].time = std::min(points[i].time, *took);
      }
    }
  }
  std::string measured;
  for (const auto& point : points) {
    curve.Observe(point.rows, point.time);
    absl::StrAppend(&measured, measured.empty() ? "" : ",", point.rows, ":",
                    absl::ToInt64Microseconds(point.time));
  }
  TANDEM_LOG(kInfo) << base::LogFields("passes_measured")
                           .Add("took", clock.Now() - began)
                           .Add("us_by_rows", measured);
}

}  // namespace tandem::target_service
