#include "tests/orchestrator/draft/length_grid.h"

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "orchestrator/draft/length/auto.h"
#include "orchestrator/draft/length/common_length.h"
#include "orchestrator/draft/length/fixed.h"

namespace tandem::orchestrator {
namespace {

// Draft tokens as a share of a pass of one row.
constexpr double kFastestDraft = 1.0 / 20;

struct Result {
  double off = 0;   // tokens per second without a draft
  double best = 0;  // of it and of the fixed lengths
  uint32_t best_length = 0;
  double tried = 0;  // of the policy
};

Result Measure(const GridCell& cell, const MakeForCell& make) {
  Result result;
  const uint32_t n = cell.setting.sequences;
  for (uint32_t length : {0, 1, 2, 3, 4, 6, 8, 12, 16}) {
    const double speed = SimulatedSpeed(
        cell.setting, [length](uint32_t) { return std::make_unique<FixedLength>(length); },
        10 * n + 50, (cell.setting.noise > 0 ? 10 : 1) * (60 * n + 1500), /*seed=*/1);
    if (length == 0) result.off = speed;
    if (speed <= result.best) continue;
    result.best = speed;
    result.best_length = length;
  }
  result.tried = SimulatedSpeed(cell.setting, make(cell.setting), 200 * n + 1500, 200 * n + 3000,
                                /*seed=*/2);
  return result;
}

}  // namespace

std::vector<GridCell> LengthGrid(uint32_t streams) {
  const std::vector<std::pair<const char*, std::vector<std::pair<double, double>>>> curves = {
      {"demo",
       {{1, 239e-6},
        {2, 252e-6},
        {4, 336e-6},
        {8, 673e-6},
        {16, 775e-6},
        {32, 1472e-6},
        {64, 2944e-6},
        {128, 5884e-6}}},
      {"bf16", {{1, 20e-3}, {5, 29.6e-3}, {8, 48.6e-3}, {16, 96.2e-3}, {128, 770e-3}}},
      {"flat", {{1, 8.02e-3}, {512, 18.2e-3}}}};
  std::vector<GridCell> cells;
  for (const auto& [name, pass] : curves) {
    for (double alpha : {0.3, 0.5, 0.7, 0.9}) {
      for (double slower : {1, 3, 8, 20}) {
        for (double round_trip : {0.0, 1e-3, 5e-3, 20e-3}) {
          for (uint32_t sequences : {1, 4, 16, 64}) {
            if (sequences < streams) continue;
            GridCell cell;
            cell.name =
                absl::StrFormat("%s alpha %.1f draft %2.0f x slower, %2.0f ms away, %2d sequences",
                                name, alpha, slower, round_trip * 1e3, sequences);
            cell.setting.pass = pass;
            cell.setting.alpha = alpha;
            cell.setting.draft_token = slower * kFastestDraft * pass.front().second;
            cell.setting.draft_round_trip = round_trip;
            cell.setting.sequences = sequences;
            cell.setting.streams = streams;
            cells.push_back(std::move(cell));
          }
        }
      }
    }
  }
  return cells;
}

MakeLength Auto(const SimulatedSetting& setting) {
  auto orchestrators = std::make_shared<std::vector<CommonLength>>(setting.streams);
  for (uint32_t i = 0; i < setting.sequences; ++i) (*orchestrators)[i % setting.streams].Began();
  return [orchestrators](uint32_t stream) -> std::unique_ptr<LengthPolicy> {
    CommonLength& common = (*orchestrators)[stream];
    return std::make_unique<AutoLength>(common, common.Group("", acceptance::Rule::kGreedy));
  };
}

GridSummary MeasureAll(const std::vector<GridCell>& cells, const MakeForCell& make,
                       std::ostream* out) {
  GridSummary summary;
  for (const GridCell& cell : cells) {
    const Result result = Measure(cell, make);
    const double ratio = result.tried / result.best;
    const double to_off = result.tried / result.off;
    const std::string text =
        absl::StrFormat("%s: %.3f of the best, which is K = %d with %.3f of none; %.3f of none",
                        cell.name, ratio, result.best_length, result.best / result.off, to_off);
    summary.mean += ratio / static_cast<double>(cells.size());
    if (ratio < 0.98) {
      ++summary.below;
      if (out != nullptr) *out << text << "\n";
    }
    if (ratio < summary.worst) {
      summary.worst = ratio;
      summary.worst_cell = text;
    }
    if (to_off < summary.worst_to_off) {
      summary.worst_to_off = to_off;
      summary.worst_to_off_cell = text;
    }
  }
  if (out != nullptr) {
    *out << absl::StrFormat(
        "%d cells: mean %.4f of the best, worst %.3f, %d below 0.98; worst to no draft %.3f\n",
        cells.size(), summary.mean, summary.worst, summary.below, summary.worst_to_off);
  }
  return summary;
}

}  // namespace tandem::orchestrator
