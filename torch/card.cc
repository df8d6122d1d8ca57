#include "torch/card.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace tandem::torch {
namespace {

double Gibibytes(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace

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

absl::StatusOr<int> PagesThatFit(const CardRoom& room, int min_pages) {
  const auto usable = static_cast<int64_t>(static_cast<double>(room.free_bytes) * room.utilization);
  const int64_t left = usable - room.weight_bytes - room.pass_bytes - kLibraryBytes;
  const int64_t pages = left / room.page_bytes - 1;
  if (left > 0 && pages >= min_pages) {
    return static_cast<int>(std::min<int64_t>(pages, std::numeric_limits<int>::max()));
  }
  const int64_t least = room.page_bytes * (int64_t{min_pages} + 1);
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%.1f GiB are missing: the card has %.1f GiB free, of which %.0f %% may be used; the weights "
      "take %.1f GiB, a pass of %d rows %.1f, LibTorch %.1f, and one text of the context length "
      "%.1f\n  hint: --pool-tokens sets a smaller cache, --max-rows a smaller pass, "
      "--gpu-memory-utilization the share",
      Gibibytes(least - left), Gibibytes(room.free_bytes), 100 * room.utilization,
      Gibibytes(room.weight_bytes), room.max_rows, Gibibytes(room.pass_bytes),
      Gibibytes(kLibraryBytes), Gibibytes(least)));
}

}  // namespace tandem::torch
