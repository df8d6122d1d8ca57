#include "tests/orchestrator/draft/length_grid.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "orchestrator/draft/length/fixed.h"

namespace tandem::orchestrator {
namespace {

// Draft tokens as a share of a pass of one row.
constexpr double kFastestDraft = 1.0 / 20;

}  // namespace

std::vector<GridCell> LengthGrid() {
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
            GridCell cell;
            cell.name =
                absl::StrFormat("%s alpha %.1f draft %2.0f x slower, %2.0f ms away, %2d sequences",
                                name, alpha, slower, round_trip * 1e3, sequences);
            cell.setting.pass = pass;
            cell.setting.alpha = alpha;
            cell.setting.draft_token = slower * kFastestDraft * pass.front().second;
            cell.setting.draft_round_trip = round_trip;
            cell.setting.sequences = sequences;
            cells.push_back(std::move(cell));
          }
        }
      }
    }
  }
  return cells;
}

std::string GridResult::ToString() const {
  return absl::StrFormat(
      "%s: %.3f of the best (a single run %.3f), which is K = %d with %.3f of none; auto %.3f of "
      "none",
      name, ratio(), lowest / best, best_length, best / off, tried / off);
}

// Fixed lengths have nothing to learn: they need fewer rounds, but enough of them to see the machine's noise, and
// the more runs the policy has, the more: the best of nine that are measured briefly is the luckiest one.
GridResult Measure(const GridCell& cell, const MakeForCell& make, uint32_t windows, uint32_t runs) {
  GridResult result;
  result.name = cell.name;
  const uint32_t n = cell.setting.sequences;
  const uint32_t fixed_windows = std::max(runs, cell.setting.noise > 0    ? 10u
                                                : cell.setting.prompt > 0 ? 3u
                                                                          : 1u);
  for (uint32_t length : {0, 1, 2, 3, 4, 6, 8, 12, 16}) {
    const double speed = SimulatedSpeed(
        cell.setting, [length] { return std::make_unique<FixedLength>(length); }, 10 * n + 50,
        fixed_windows * (60 * n + 1500), /*seed=*/1);
    if (length == 0) result.off = speed;
    if (speed <= result.best) continue;
    result.best = speed;
    result.best_length = length;
  }
  for (uint32_t run = 0; run < runs; ++run) {
    const double speed = SimulatedSpeed(cell.setting, make(n), windows * (200 * n + 1500),
                                        windows * (200 * n + 3000), /*seed=*/2 + run);
    result.tried += speed / runs;
    result.lowest = run == 0 ? speed : std::min(result.lowest, speed);
  }
  return result;
}

}  // namespace tandem::orchestrator
