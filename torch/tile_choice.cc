#include "torch/tile_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::torch {

int ChooseTile(absl::Span<const TileCost> costs) {
  TANDEM_CHECK(!costs.empty());
  absl::Duration quickest = absl::InfiniteDuration();
  for (const TileCost& cost : costs) quickest = std::min(quickest, cost.took);
  int largest = 0;
  for (const TileCost& cost : costs) {
    if (cost.took <= quickest + quickest / 20) largest = std::max(largest, cost.tile);
  }
  return largest;
}

std::string TileCostsText(absl::Span<const TileCost> costs) {
  std::string text;
  for (const TileCost& cost : costs) {
    absl::StrAppend(&text, text.empty() ? "" : ",", cost.tile, ":",
                    absl::ToInt64Microseconds(cost.took));
  }
  return text;
}

}  // namespace tandem::torch
