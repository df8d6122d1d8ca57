#include "target_service/cost_probe.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/config/log.h"

namespace tandem::target_service {
namespace {

constexpr int kRowsOfACache = 32;  // as much as a round has at most, more or less
constexpr int kTimesEach = 3;      // the first warms up what is made for this many rows

using Caches = std::vector<std::unique_ptr<model::Cache>>;

Caches ScratchCaches(model::LanguageModel& model) {
  const int room = std::min<int>(kRowsOfACache, static_cast<int>(model.info().context_length));
  Caches caches;
  for (int rows = 0; rows < model.most_rows(); rows += room) {
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
    const int taken = std::min(rows, cache->most_tokens());
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
  for (const auto& cache : caches) room += cache->most_tokens();
  room = std::min(room, model.most_rows());

  const absl::Duration began = clock.Now();
  std::string measured;
  for (int rows = 1; rows <= room; rows = rows < room ? std::min(2 * rows, room) : room + 1) {
    absl::Duration shortest = absl::InfiniteDuration();
    for (int i = 0; i < kTimesEach; ++i) {
      // Twice the rows take twice as long at most, or nearly so.
      const absl::Duration expected = i == 0 ? 2 * curve.Estimate(rows) : shortest;
      if (rows + i > 1 && clock.Now() - began + expected > time) break;
      const absl::StatusOr<absl::Duration> took = TimeOf(rows, caches, model, clock);
      if (!took.ok()) {
        TANDEM_LOG(kWarning) << "measuring a pass of " << rows << " rows failed: " << took.status();
        return;
      }
      shortest = std::min(shortest, *took);
    }
    if (shortest == absl::InfiniteDuration()) break;
    curve.Observe(rows, shortest);
    absl::StrAppend(&measured, measured.empty() ? "" : ", ", rows, ": ",
                    absl::ToInt64Microseconds(shortest));
  }
  TANDEM_LOG(kInfo) << "passes measured in " << absl::FormatDuration(clock.Now() - began)
                    << ", rows: microseconds: " << measured;
}

}  // namespace tandem::target_service
