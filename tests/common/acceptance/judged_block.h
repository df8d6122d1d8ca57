// A block judged by the real first half, and integrated over what is drawn after it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/acceptance/rule.h"
#include "common/speculation/candidate_tree.h"
#include "tests/common/acceptance/round_law.h"
#include "tests/common/acceptance/round_world.h"

namespace tandem::acceptance {

using Masses = std::vector<long double>;  // [vocabulary], they sum to 1

Masses Dense(const sampling::Distribution& p, uint32_t vocabulary);
// q(token); of no ids: one-hot at the draft token.
long double ProbabilityOf(const sampling::SparseDistribution& q, uint32_t token,
                          uint32_t candidate);

// Keeps views of `setting` and `block`.
class JudgedBlock {
 public:
  // p: [K + 1]. EXPECTs a valid verdict, and that the rule draws what `masses` say.
  JudgedBlock(const Setting& setting, const speculation::CandidateTree& block,
              std::vector<sampling::Distribution> p);

  std::vector<Entry> entries;
  std::vector<Masses> masses;  // of the token after entry i, if the block ends there

  // P(the block ends at entry i). Test i passes with its accept probability, or with what is left
  // of that when its uniform is known to be at least held[i].
  std::vector<double> Ends(const std::vector<double>& held) const;

 private:
  std::vector<Entry> Judge(const std::vector<double>& uniforms) const;
  std::vector<long double> Integrate();
  void Certify(const std::vector<long double>& sums) const;

  const Setting& setting_;
  const speculation::CandidateTree& block_;
  const std::vector<sampling::Distribution> p_;
  const size_t candidates_;
  std::vector<const sampling::SparseDistribution*> q_;
};

}  // namespace tandem::acceptance
