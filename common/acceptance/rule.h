// The rules of acceptance. A rule has two halves, both pure functions:
//   judge   at the target, which has p: for each node, how likely its draft token is accepted, and
//           which token follows if the block ends there;
//   decide  at the orchestrator, which draws the uniforms: how much of the block stands.
// So a distribution over a vocabulary never crosses the wire, and neither side alone chooses the
// text.
//
// Each rule has a file of its own, with its source: greedy.h, speculative.h, block.h, coupled.h,
// lenient.h; trees of draft tokens are in tree.h. This one has what they share and the dispatch.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/random/random.h"
#include "common/sampling/distribution.h"
#include "common/sampling/sparse.h"

namespace tandem::acceptance {

enum class Rule : uint8_t { kGreedy, kSpeculative, kBlock, kCoupled, kLenient };
inline constexpr Rule kRules[] = {Rule::kGreedy, Rule::kSpeculative, Rule::kBlock, Rule::kCoupled,
                                  Rule::kLenient};

// Whether the text follows the target's distribution exactly under this rule.
bool IsExact(Rule rule);
const char* Name(Rule rule);  // "greedy", …; for people and logs

// Entry 0 is the root, entry i the i-th draft token; K + 1 in all.
struct Entry {
  // Root: 1. Rules but block: of this node's draft token, given that its parent stands. Block: that
  // the block stands up to here, whatever the tests of earlier nodes said.
  double accept_probability = 1;
  // What follows if the block ends here; absent: it cannot end here.
  std::optional<uint32_t> next_token;
};

// A chain to judge, or a tree.
struct JudgeInput {
  Rule rule = Rule::kGreedy;
  random::RoundKey key;  // of the request's own seed
  absl::Span<const sampling::Distribution>
      p;                                  // [K + 1]: p[i] follows node i, in a chain i draft tokens
  absl::Span<const uint32_t> candidates;  // [K]; an id outside the vocabulary has p = 0
  // [K], or empty: every draft token is one-hot. A null entry is one-hot as well. Validated by the
  // caller (sampling::ValidateFor); `q[i](candidates[i])` > 0.
  absl::Span<const sampling::SparseDistribution* const> q;
  // Rule lenient: above 0, to 1. With `greedy` (temperature 0) p is what it is at temperature 1.
  double leniency = 1;
  bool greedy = false;
  // [K], the node that each draft token follows, under a rule that has trees (tree.h); q is empty
  // then. Empty: a chain.
  absl::Span<const uint32_t> parents;
};

// K + 1 entries. With no draft tokens, entry 0 is plain decoding under every rule: the Gumbel race
// keyed by position, so that a request without a draft gives the same text for the same seed
// whatever its rounds were; rule lenient at temperature 0: argmax p.
std::vector<Entry> Judge(const JudgeInput& input);

struct Decision {
  uint32_t accepted = 0;    // draft tokens that stand, 0 to K
  uint32_t next_token = 0;  // committed after them
  bool rejected = false;    // the block ended by a rejection, not by its length
  // Of a tree: the nodes that stand, from the root on, accepted many. Of a chain empty: they are
  // nodes 1 to accepted.
  std::vector<uint32_t> path = {};

  // The i-th node that stands, i below accepted.
  uint32_t node(uint32_t i) const { return path.empty() ? i + 1 : path[i]; }
  // The last one; 0: none does.
  uint32_t last_node() const { return accepted == 0 ? 0 : node(accepted - 1); }
};

// `uniforms`: [K], one per draft token, each in [0, 1): a draft token passes when u <
// accept_probability (strict, so that a banned token is not accepted at u = 0). Rule block: what
// stands ends at the last draft token that passes. The others: before the first that does not. An
// entry that lacks a next_token cannot be the end. The last entry must have one. CHECKs its shape:
// a caller validates what came over a wire (ValidateEntries).
Decision Decide(Rule rule, absl::Span<const Entry> entries, absl::Span<const double> uniforms);

// The uniforms of a round: random::Uniform(key, key.committed + i, kAccept).
std::vector<double> AcceptUniforms(const random::RoundKey& key, int candidates);

// What an orchestrator checks in a verdict before it decides: draft tokens + 1 entries,
// probabilities in [0, 1] and not NaN, the last entry has a next token, tokens below
// vocabulary_size, and no uniforms lead Decide to an entry without a next token. Rule block:
// ValidateBlockEnds (block.h). The others: an entry without a next token is followed by a draft
// token that is accepted for certain.
absl::Status ValidateEntries(Rule rule, absl::Span<const Entry> entries, int candidates,
                             uint32_t vocabulary_size);

}  // namespace tandem::acceptance
