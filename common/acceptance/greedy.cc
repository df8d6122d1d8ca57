#include "common/acceptance/greedy.h"

#include "common/base/check.h"

namespace tandem::acceptance {

std::vector<Entry> JudgeGreedy(absl::Span<const uint32_t> argmax,
                               absl::Span<const uint32_t> candidates) {
  TANDEM_CHECK(argmax.size() == candidates.size() + 1);
  std::vector<Entry> entries(argmax.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool stands = candidates[i] == argmax[i];
    entries[i + 1].accept_probability = stands ? 1 : 0;
    if (!stands) entries[i].next_token = argmax[i];
  }
  entries.back().next_token = argmax.back();
  return entries;
}

}  // namespace tandem::acceptance
