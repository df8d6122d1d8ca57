// The joint law of the first tokens that whole rounds commit, by enumeration: no sampling anywhere.
//
// A sum over all blocks that a draft may send, weighted with what it draws from; for each the real
// first half (Judge…), and the real second half (Decide) on every cell into which the accept
// probabilities cut the uniforms. What a rule draws after a block is integrated over its uniform:
// the masses are computed here, in long double, and checked against the rule's own draws at both
// sides of every step of its distribution function. Then the next round begins, until `horizon`
// tokens are there; the tokens before it are the history of penalties, minimum tokens and the
// models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/sampling/parameters.h"

namespace tandem::acceptance {

enum class Draft : uint8_t {
  kSampled,  // top_m of its own p after the same options, drawn and sent
  kUnaware,  // the same without the options: may draw what is banned
  kOneHot,   // its argmax, without q
  kRandom,   // any of three ids, one of them unknown, without q
};

// Rounds that are wrong in a known way.
enum class Wrong : uint8_t {
  kNothing,
  kRedrawsFromP,            // no residual
  kResidualOnlyDropsToken,  // replaces from p without the draft token
  kQBeforeTruncation,       // draws from the top_m, sends the whole q
  kOneUniform,              // the accepting uniform draws the recovered token, too
  kNoCommittedInKey,     // the second round's tests use the first one's uniforms of the same place
  kStopsAtFirstFailure,  // block verification read as the other rules are
  kBonusFromQ,           // what follows a whole block comes from the draft
  kDropsUnlikelyToken,   // a drawn token of low q does not reach the target
  kDropsBannedToken,     // nor one that p rules out
  kKeepsHistory,         // rejected draft tokens stay in the history
};

struct Setting {
  Rule rule = Rule::kSpeculative;
  sampling::SamplingParameters options;
  Draft draft = Draft::kSampled;
  int block = 2;  // draft tokens per round
  uint32_t vocabulary = 4;
  int horizon = 4;  // tokens
  int top_m = 2;
  double leniency = 1;
  Wrong wrong = Wrong::kNothing;
};

// Option sets that cover every option, by name. `greedy`: the same at temperature 0.
struct NamedOptions {
  std::string name;
  sampling::SamplingParameters options;
};
std::vector<NamedOptions> OptionSets(bool greedy);

// [vocabulary ^ horizon], the first token the most significant. Decoding one by one from p.
std::vector<double> TargetLaw(const Setting& setting);
// Rounds under `setting.rule`, not coupled. EXPECTs what is said above.
std::vector<double> RoundsLaw(const Setting& setting);
// Rule coupled: `candidate(path, place)` is the draft's token at `place`, where path holds the
// target's own draws at all `horizon` places, those to come too. EXPECTs that just these are
// committed.
using KnowingDraft = uint32_t (*)(const std::vector<uint32_t>& path, size_t place);
std::vector<double> CoupledLaw(const Setting& setting, KnowingDraft candidate);

// The largest ratio of a law's P(token | tokens before it) to the target's.
double LargestRatio(const Setting& setting, const std::vector<double>& law);

}  // namespace tandem::acceptance
