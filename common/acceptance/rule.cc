#include "common/acceptance/rule.h"

#include "absl/strings/str_cat.h"
#include "common/acceptance/block.h"
#include "common/acceptance/coupled.h"
#include "common/acceptance/greedy.h"
#include "common/acceptance/lenient.h"
#include "common/acceptance/speculative.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"

namespace tandem::acceptance {
namespace {

using random::Purpose;

std::vector<Entry> JudgeByGreedy(const JudgeInput& input) {
  std::vector<uint32_t> argmax;
  for (const sampling::Distribution& p : input.p) {
    TANDEM_CHECK(p.ids.size() == 1) << "rule greedy judges p at temperature 0, which is one-hot";
    argmax.push_back(p.ids[0]);
  }
  if (!input.parents.empty()) return JudgeTree(argmax, input.candidates, input.parents);
  return JudgeGreedy(argmax, input.candidates);
}

// The coupled rule's draws at the nodes of a tree: its depth is what a node adds to the position.
std::vector<Entry> JudgeCoupledTree(const JudgeInput& input) {
  const std::vector<uint32_t> depths = NodeDepths(input.parents);
  std::vector<uint32_t> draws(input.p.size());
  for (size_t node = 0; node < draws.size(); ++node) {
    draws[node] = sampling::DrawRace(input.p[node], input.key.seed, input.key.sample_index,
                                     input.key.committed + depths[node]);
  }
  return JudgeTree(draws, input.candidates, input.parents);
}

// What the rules that draw draw with.
struct RoundUniforms {
  std::vector<double> recovered;  // [K]
  double bonus;
};

RoundUniforms UniformsOf(const JudgeInput& input) {
  const random::RoundKey& key = input.key;
  const uint32_t candidates = static_cast<uint32_t>(input.candidates.size());
  RoundUniforms uniforms;
  uniforms.recovered.resize(candidates);
  for (uint32_t i = 0; i < candidates; ++i) {
    uniforms.recovered[i] = random::Uniform(key, key.committed + i, Purpose::kRecovered);
  }
  uniforms.bonus = random::Uniform(key, key.committed + candidates, Purpose::kBonus);
  return uniforms;
}

}  // namespace

bool IsExact(Rule rule) { return rule != Rule::kLenient; }

const char* Name(Rule rule) {
  switch (rule) {
    case Rule::kGreedy:
      return "greedy";
    case Rule::kSpeculative:
      return "speculative";
    case Rule::kBlock:
      return "block";
    case Rule::kCoupled:
      return "coupled";
    case Rule::kLenient:
      return "lenient";
  }
  return "unknown";
}

std::vector<Entry> Judge(const JudgeInput& input) {
  TANDEM_CHECK(input.p.size() == input.candidates.size() + 1)
      << input.p.size() << " distributions for " << input.candidates.size() << " draft tokens";
  for (const sampling::Distribution& p : input.p) {
    TANDEM_CHECK(!p.ids.empty()) << "a distribution of no tokens (the logits were not finite)";
  }
  TANDEM_CHECK(input.parents.empty() ||
               (HasTrees(input.rule) && input.parents.size() == input.candidates.size()))
      << "rule " << Name(input.rule) << ", " << input.parents.size() << " parents";
  if (input.rule == Rule::kLenient && input.greedy) {
    return JudgeLenientGreedy(input.p, input.candidates, input.leniency);
  }
  if (input.candidates.empty()) {
    const random::RoundKey& key = input.key;
    Entry plain;
    plain.next_token = sampling::DrawRace(input.p[0], key.seed, key.sample_index, key.committed);
    return {plain};
  }
  if (input.rule == Rule::kGreedy) return JudgeByGreedy(input);
  if (!input.parents.empty()) return JudgeCoupledTree(input);
  if (input.rule == Rule::kCoupled) return JudgeCoupled(input.p, input.candidates, input.key);
  const RoundUniforms uniforms = UniformsOf(input);
  switch (input.rule) {
    case Rule::kSpeculative:
      return JudgeSpeculative(input.p, input.candidates, input.q, uniforms.recovered,
                              uniforms.bonus);
    case Rule::kBlock:
      return JudgeBlock(input.p, input.candidates, input.q, uniforms.recovered, uniforms.bonus);
    case Rule::kLenient:
      return JudgeLenient(input.p, input.candidates, input.q, input.leniency, uniforms.recovered,
                          uniforms.bonus);
    case Rule::kGreedy:
    case Rule::kCoupled:
      break;
  }
  TANDEM_CHECK(false) << "rule " << static_cast<int>(input.rule);
  return {};
}

Decision Decide(Rule rule, absl::Span<const Entry> entries, absl::Span<const double> uniforms) {
  if (rule == Rule::kBlock) return DecideBlock(entries, uniforms);
  TANDEM_CHECK(entries.size() == uniforms.size() + 1);
  TANDEM_CHECK(entries.back().next_token.has_value()) << "the last entry has no next token";
  for (uint32_t i = 0; i < uniforms.size(); ++i) {
    const bool stands = uniforms[i] < entries[i + 1].accept_probability;
    if (!stands && entries[i].next_token.has_value()) return {i, *entries[i].next_token, true};
  }
  return {static_cast<uint32_t>(uniforms.size()), *entries.back().next_token, false};
}

std::vector<double> AcceptUniforms(const random::RoundKey& key, int candidates) {
  std::vector<double> uniforms(candidates);
  for (int i = 0; i < candidates; ++i) {
    uniforms[i] = random::Uniform(key, key.committed + i, Purpose::kAccept);
  }
  return uniforms;
}

absl::Status ValidateEntries(Rule rule, absl::Span<const Entry> entries, int candidates,
                             uint32_t vocabulary_size) {
  if (candidates < 0 || entries.size() != static_cast<size_t>(candidates) + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the verdict has ", entries.size(),
                                                   " entries for ", candidates,
                                                   " draft tokens; it must have one more"));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (!(entry.accept_probability >= 0 && entry.accept_probability <= 1)) {  // a NaN too
      return absl::InvalidArgumentError(absl::StrCat("entry ", i, " has accept probability ",
                                                     entry.accept_probability,
                                                     "; it must be from 0 to 1"));
    }
    if (entry.next_token.has_value() && *entry.next_token >= vocabulary_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", i, " has next token ", *entry.next_token,
                       ", which is not below the vocabulary's ", vocabulary_size));
    }
  }
  if (!entries.back().next_token.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last entry, ", candidates, ", has no next token"));
  }
  if (rule == Rule::kBlock) return ValidateBlockEnds(entries);
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    if (entries[i].next_token.has_value()) continue;
    if (!(entries[i + 1].accept_probability >= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("entry ", i,
                       " has no next token, but its draft token may be rejected (accept "
                       "probability ",
                       entries[i + 1].accept_probability, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem::acceptance
