#include "target_service/pass_policy.h"

#include <algorithm>

namespace tandem::target_service {
namespace {

bool IsShort(const WaitingRows& work, const PassLimits& limits) {
  return work.total() <= std::min(limits.short_rows, limits.most_rows);
}

}  // namespace

std::vector<Grant> FormPass(absl::Span<const WaitingRows> waiting, const PassLimits& limits) {
  bool long_waits = false;
  bool short_waits = false;
  for (const WaitingRows& work : waiting) (IsShort(work, limits) ? short_waits : long_waits) = true;
  const int share =
      long_waits ? std::min(limits.prefill_rows, std::max(1, limits.most_rows / 2)) : 0;

  std::vector<Grant> grants;
  int used = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const int rows = waiting[i].total();
    if (!IsShort(waiting[i], limits)) continue;
    // The first one always fits. No overtaking: what does not fit now is the first next time.
    if (used > 0 && used + rows > limits.most_rows - share) break;
    grants.push_back({i, rows});
    used += rows;
  }

  int budget = limits.most_rows - used;
  if (short_waits) budget = std::min(budget, limits.prefill_rows);
  for (size_t i = 0; i < waiting.size() && budget > 0; ++i) {
    if (IsShort(waiting[i], limits)) continue;
    const WaitingRows& work = waiting[i];
    const int rows = work.total() <= budget ? work.total() : std::min(work.prefill, budget);
    if (rows == 0) break;
    grants.push_back({i, rows});
    budget -= rows;
  }
  return grants;
}

}  // namespace tandem::target_service
