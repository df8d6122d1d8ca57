#include "tests/common/acceptance/judged_block.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/acceptance/block.h"
#include "common/acceptance/greedy.h"
#include "common/acceptance/lenient.h"
#include "common/acceptance/speculative.h"
#include "gtest/gtest.h"

namespace tandem::acceptance {

using sampling::Distribution;
using sampling::SparseDistribution;

namespace {

const double kLast = std::nextafter(1.0, 0);

// The first token whose cumulative mass exceeds u.
uint32_t TokenAt(const Masses& masses, double u) {
  long double cumulative = 0;
  uint32_t last = 0;
  for (uint32_t token = 0; token < masses.size(); ++token) {
    if (masses[token] <= 0) continue;
    last = token;
    cumulative += masses[token];
    if (cumulative > u) return token;
  }
  return last;
}

}  // namespace

Masses Dense(const Distribution& p, uint32_t vocabulary) {
  Masses dense(vocabulary);
  for (size_t i = 0; i < p.ids.size(); ++i) dense[p.ids[i]] = p.probabilities[i];
  return dense;
}

long double ProbabilityOf(const SparseDistribution& q, uint32_t token, uint32_t candidate) {
  if (q.ids.empty()) return token == candidate ? 1 : 0;
  long double sum = 0, weight = 0;
  for (size_t i = 0; i < q.ids.size(); ++i) {
    sum += q.weights[i];
    if (q.ids[i] == token) weight = q.weights[i];
  }
  return weight / sum;
}

JudgedBlock::JudgedBlock(const Setting& setting, const speculation::CandidateTree& block,
                         std::vector<Distribution> p)
    : setting_(setting), block_(block), p_(std::move(p)), candidates_(block.tokens.size()) {
  for (const SparseDistribution& q : block.q) q_.push_back(q.ids.empty() ? nullptr : &q);
  entries = Judge(std::vector<double>(candidates_ + 1, 0.5));
  EXPECT_TRUE(
      ValidateEntries(setting.rule, entries, static_cast<int>(candidates_), setting.vocabulary)
          .ok());
  Certify(Integrate());
}

std::vector<double> JudgedBlock::Ends(const std::vector<double>& held) const {
  std::vector<double> ends(candidates_ + 1);
  const Rule rule =
      setting_.wrong == Wrong::kStopsAtFirstFailure ? Rule::kSpeculative : setting_.rule;
  for (uint32_t cell = 0; cell < 1u << candidates_; ++cell) {
    double weight = 1;
    std::vector<double> uniforms(candidates_);
    for (size_t i = 0; i < candidates_; ++i) {
      const double accept = entries[i + 1].accept_probability;
      const double from = i < held.size() ? held[i] : 0;
      const double pass = std::max(0.0, accept - from) / (1 - from);
      const bool passes = cell >> i & 1;
      weight *= passes ? pass : 1 - pass;
      uniforms[i] = passes ? std::nextafter(accept, 0) : accept;  // the cell's edge
    }
    if (weight > 0) ends[Decide(rule, entries, uniforms).accepted] += weight;
  }
  return ends;
}

// uniforms[i] draws what follows entry i.
std::vector<Entry> JudgedBlock::Judge(const std::vector<double>& uniforms) const {
  const auto replace = absl::MakeConstSpan(uniforms).first(candidates_);
  const double bonus = uniforms.back();
  switch (setting_.rule) {
    case Rule::kGreedy: {
      Tokens argmax;
      for (const Distribution& p : p_) argmax.push_back(p.ids.at(0));
      return JudgeGreedy(argmax, block_.tokens);
    }
    case Rule::kSpeculative:
      return JudgeSpeculative(p_, block_.tokens, q_, replace, bonus);
    case Rule::kBlock:
      return JudgeBlock(p_, block_.tokens, q_, replace, bonus);
    case Rule::kLenient:
      return JudgeLenient(p_, block_.tokens, q_, setting_.leniency, replace, bonus);
    case Rule::kCoupled:
      break;
  }
  ADD_FAILURE() << "coupled has a law of its own";
  return {};
}

// The sums of what is left after each entry, before `masses` are normalised.
std::vector<long double> JudgedBlock::Integrate() {
  std::vector<long double> sums;
  long double r = 1;
  for (size_t i = 0; i <= candidates_; ++i) {
    masses.push_back(Dense(p_[i], setting_.vocabulary));
    long double sum = 0;
    if (i < candidates_ && setting_.rule != Rule::kGreedy) {
      const uint32_t candidate = block_.tokens[i];
      for (uint32_t token = 0; token < setting_.vocabulary; ++token) {
        long double& mass = masses[i][token];
        mass = std::max(0.0L, r * mass - ProbabilityOf(block_.q[i], token, candidate));
      }
      if (setting_.rule == Rule::kBlock) {
        r = std::min(1.0L, r * p_[i](candidate) / ProbabilityOf(block_.q[i], candidate, candidate));
      }
    }
    for (long double mass : masses[i]) sum += mass;
    for (long double& mass : masses[i]) mass = sum > 0 ? mass / sum : 0;
    sums.push_back(sum);
  }
  return sums;
}

// At both sides of every step of the distribution function the rule draws what the masses say.
void JudgedBlock::Certify(const std::vector<long double>& sums) const {
  for (int step = 0; step < 2 * static_cast<int>(setting_.vocabulary); ++step) {
    std::vector<double> uniforms(candidates_ + 1);
    for (size_t i = 0; i <= candidates_; ++i) {
      long double at = 0;
      for (int token = 0; token < step / 2; ++token) at += masses[i][token];
      // Rounding of a sum of doubles, and more where little is left.
      const long double side = sums[i] > 0 ? 1e-14L + 1e-15L / sums[i] : 0;
      uniforms[i] =
          std::clamp(static_cast<double>(step % 2 == 0 ? at - side : at + side), 0.0, kLast);
    }
    const std::vector<Entry> drawn = Judge(uniforms);
    for (size_t i = 0; i <= candidates_; ++i) {
      EXPECT_EQ(drawn[i].accept_probability, entries[i].accept_probability);
      EXPECT_EQ(drawn[i].next_token.has_value(), entries[i].next_token.has_value());
      if (!drawn[i].next_token.has_value() || sums[i] < 1e-9L) continue;
      EXPECT_EQ(*drawn[i].next_token, TokenAt(masses[i], uniforms[i]))
          << "after " << i << " of " << candidates_ << " at " << uniforms[i];
    }
  }
}

}  // namespace tandem::acceptance
