#include "common/acceptance/tree.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::acceptance {

bool HasTrees(Rule rule) { return rule == Rule::kGreedy || rule == Rule::kCoupled; }

std::vector<uint32_t> NodeDepths(absl::Span<const uint32_t> parents) {
  std::vector<uint32_t> depths(parents.size() + 1, 0);
  for (size_t i = 0; i < parents.size(); ++i) {
    TANDEM_CHECK(parents[i] <= i) << "parents[" << i << "] is " << parents[i];
    depths[i + 1] = depths[parents[i]] + 1;
  }
  return depths;
}

std::vector<Entry> JudgeTree(absl::Span<const uint32_t> draws,
                             absl::Span<const uint32_t> candidates,
                             absl::Span<const uint32_t> parents) {
  TANDEM_CHECK(draws.size() == candidates.size() + 1 && parents.size() == candidates.size());
  std::vector<Entry> entries(draws.size());
  for (size_t node = 0; node < draws.size(); ++node) entries[node].next_token = draws[node];
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool stands = candidates[i] == draws[parents[i]];
    entries[i + 1].accept_probability = stands ? 1 : 0;
    if (stands) entries[parents[i]].next_token.reset();
  }
  return entries;
}

Decision DecideTree(absl::Span<const Entry> entries, absl::Span<const uint32_t> parents) {
  TANDEM_CHECK(entries.size() == parents.size() + 1);
  Decision decision;
  uint32_t end = 0;
  bool has_child = false;
  for (size_t i = 0; i < parents.size(); ++i) {  // children come after their parents
    if (parents[i] != end) continue;
    has_child = true;
    if (entries[i + 1].accept_probability < 1) continue;
    end = static_cast<uint32_t>(i) + 1;
    decision.path.push_back(end);
    has_child = false;
  }
  TANDEM_CHECK(entries[end].next_token.has_value()) << "node " << end << " has no next token";
  decision.accepted = static_cast<uint32_t>(decision.path.size());
  decision.next_token = *entries[end].next_token;
  decision.rejected = has_child;
  return decision;
}

absl::Status ValidateTreeEntries(absl::Span<const Entry> entries,
                                 absl::Span<const uint32_t> candidates,
                                 absl::Span<const uint32_t> parents, uint32_t vocabulary_size) {
  TANDEM_CHECK(parents.size() == candidates.size());
  const auto wrong = [](size_t node, const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("entry ", node, " ", what...));
  };
  if (entries.size() != candidates.size() + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the verdict has ", entries.size(),
                                                   " entries for a tree of ", candidates.size(),
                                                   " draft tokens; it must have one more"));
  }
  std::vector<bool> goes_on(entries.size(), false);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double probability = entries[i + 1].accept_probability;
    if (probability != 0 && probability != 1) {
      return wrong(i + 1, "has accept probability ", probability, "; in a tree it is 0 or 1");
    }
    if (probability == 0) continue;
    if (goes_on[parents[i]]) return wrong(parents[i], "has two children that stand");
    goes_on[parents[i]] = true;
  }
  for (size_t node = 0; node < entries.size(); ++node) {
    const std::optional<uint32_t>& next = entries[node].next_token;
    if (next.has_value() == goes_on[node]) {
      return wrong(node, goes_on[node] ? "has a next token, and a child of it stands"
                                       : "has no next token, and no child of it stands");
    }
    if (next.has_value() && *next >= vocabulary_size) {
      return wrong(node, "has next token ", *next, ", which is not below the vocabulary's ",
                   vocabulary_size);
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (entries[parents[i]].next_token == candidates[i]) {
      return wrong(i + 1, "carries the next token of its parent, and does not stand");
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::acceptance
