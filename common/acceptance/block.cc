#include "common/acceptance/block.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/acceptance/residual.h"
#include "common/base/check.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SparseDistribution;

std::vector<Entry> JudgeBlock(absl::Span<const Distribution> p,
                              absl::Span<const uint32_t> candidates,
                              absl::Span<const SparseDistribution* const> q,
                              absl::Span<const double> recovered_uniforms, double bonus_uniform) {
  TANDEM_CHECK(p.size() == candidates.size() + 1);
  TANDEM_CHECK(q.empty() || q.size() == candidates.size());
  TANDEM_CHECK(recovered_uniforms.size() == candidates.size());
  std::vector<Entry> entries(p.size());
  double r = 1;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const SparseDistribution* q_i = q.empty() ? nullptr : q[i];
    const Residual residual(p[i], candidates[i], q_i, r);
    const double z = residual.Sum();
    const bool must_go_on = r == 1 && z <= 0;
    // Z / (Z + 1 - r) is exactly 1 where r is: the residual of a block that stands for certain.
    if (i > 0) entries[i].accept_probability = must_go_on ? 1 : z / (z + (1 - r));
    entries[i].next_token = residual.Draw(recovered_uniforms[i]);
    const double ratio = p[i](candidates[i]) / CandidateProbability(candidates[i], q_i);
    // p = q here but for rounding, which must not leave the block without an end.
    r = must_go_on ? 1 : std::min(1.0, r * ratio);
  }
  entries.back().accept_probability = r;
  entries.back().next_token = sampling::Draw(p.back(), bonus_uniform);
  return entries;
}

Decision DecideBlock(absl::Span<const Entry> entries, absl::Span<const double> uniforms) {
  TANDEM_CHECK(entries.size() == uniforms.size() + 1);
  size_t end = uniforms.size();
  while (end > 0 && !(uniforms[end - 1] < entries[end].accept_probability)) --end;
  TANDEM_CHECK(entries[end].next_token.has_value())
      << "the block ends at entry " << end << ", which has no next token";
  return {static_cast<uint32_t>(end), *entries[end].next_token, end < uniforms.size()};
}

absl::Status ValidateBlockEnds(absl::Span<const Entry> entries) {
  bool goes_on = false;  // a later entry passes for certain
  for (size_t i = entries.size(); i-- > 0;) {
    const Entry& entry = entries[i];
    const bool never_passes = i > 0 && entry.accept_probability <= 0;
    if (!entry.next_token.has_value() && !never_passes && !goes_on) {
      return absl::InvalidArgumentError(absl::StrCat(
          "entry ", i,
          " has no next token, but the block may end there: its accept probability is ",
          entry.accept_probability, " and no later one is 1"));
    }
    if (entry.accept_probability >= 1) goes_on = true;
  }
  return absl::OkStatus();
}

}  // namespace tandem::acceptance
