#include "tests/common/acceptance/round_law.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gtest/gtest.h"
#include "tests/common/acceptance/judged_block.h"
#include "tests/common/acceptance/round_world.h"

namespace tandem::acceptance {
namespace {

using sampling::Distribution;
using sampling::SparseDistribution;

struct State {
  Tokens committed;
  Tokens leftovers;  // Wrong::kKeepsHistory
  std::vector<double>
      held;  // Wrong::kNoCommittedInKey: test i's uniform is known to be at least held[i]

  auto operator<=>(const State&) const = default;
};

class Rounds {
 public:
  explicit Rounds(const Setting& setting) : setting_(setting), world_(setting) {}

  const std::vector<double>& Law(const State& state) {
    auto [it, is_new] = laws_.try_emplace(state);
    if (!is_new) return it->second;
    std::vector<double> law(Cells(setting_.horizon - state.committed.size()));
    for (const WeightedBlock& block : world_.Blocks(state.committed, state.leftovers)) {
      AddBlock(state, block, law);
    }
    return laws_[state] = std::move(law);
  }

 private:
  size_t Cells(size_t tokens) const {
    size_t cells = 1;
    for (; tokens > 0; --tokens) cells *= setting_.vocabulary;
    return cells;
  }

  void AddBlock(const State& state, const WeightedBlock& block, std::vector<double>& law) {
    const Tokens& candidates = block.tokens;
    Tokens context = state.committed;
    std::vector<Distribution> p = {world_.P(context, state.leftovers)};
    for (uint32_t candidate : candidates) {
      context.push_back(candidate);
      p.push_back(world_.P(context, state.leftovers));
    }
    JudgedBlock judged(setting_, block, p);
    Spoil(block, p, context, judged);
    const std::vector<double> ends = judged.Ends(state.held);
    for (size_t end = 0; end <= candidates.size(); ++end) {
      if (ends[end] == 0) continue;
      State next = state;
      next.held.clear();
      next.committed.insert(next.committed.end(), candidates.begin(), candidates.begin() + end);
      if (setting_.wrong == Wrong::kKeepsHistory) {
        next.leftovers.insert(next.leftovers.end(), candidates.begin() + end, candidates.end());
      }
      if (setting_.wrong == Wrong::kNoCommittedInKey && state.committed.empty()) {
        // All tests past the end failed; the next round begins one place after it.
        for (size_t i = end + 2; i <= candidates.size(); ++i) {
          next.held.push_back(judged.entries[i].accept_probability);
        }
      }
      for (uint32_t token = 0; token < setting_.vocabulary; ++token) {
        const double weight = block.weight * ends[end] * judged.masses[end][token];
        if (weight == 0) continue;
        next.committed.push_back(token);
        Add(state.committed.size(), next, weight, law);
        next.committed.pop_back();
      }
    }
  }

  // Adds what comes after `next` to a law that begins at `from`.
  void Add(size_t from, const State& next, double weight, std::vector<double>& law) {
    const size_t horizon = setting_.horizon;
    const size_t until = std::min(horizon, next.committed.size());
    size_t cell = 0;
    for (size_t i = from; i < until; ++i) cell = cell * setting_.vocabulary + next.committed[i];
    if (until == horizon) {
      law[cell] += weight;
      return;
    }
    const std::vector<double>& rest = Law(next);
    for (size_t i = 0; i < rest.size(); ++i) law[cell * rest.size() + i] += weight * rest[i];
  }

  void Spoil(const WeightedBlock& block, const std::vector<Distribution>& p, const Tokens& context,
             JudgedBlock& judged) {
    const uint32_t vocabulary = setting_.vocabulary;
    const size_t candidates = block.tokens.size();
    for (size_t i = 0; i < candidates; ++i) {
      Masses& masses = judged.masses[i];
      if (setting_.wrong == Wrong::kRedrawsFromP) masses = Dense(p[i], vocabulary);
      if (setting_.wrong == Wrong::kResidualOnlyDropsToken) {
        masses = Dense(p[i], vocabulary);
        const long double left = 1 - masses[block.tokens[i]];
        masses[block.tokens[i]] = 0;
        for (long double& mass : masses) mass /= left;
      }
      const double accept = judged.entries[i + 1].accept_probability;
      if (setting_.wrong == Wrong::kOneUniform && accept < 1) {
        long double from = 0;  // the uniform is known to be at least `accept`
        for (long double& mass : masses) {
          const long double to = from + mass;
          mass = std::max(0.0L, to - std::max<long double>(from, accept)) / (1 - accept);
          from = to;
        }
      }
    }
    if (setting_.wrong == Wrong::kBonusFromQ) {
      const SparseDistribution q = world_.Q(context);
      for (uint32_t token = 0; token < vocabulary; ++token) {
        judged.masses.back()[token] = ProbabilityOf(q, token, token);
      }
    }
  }

  const Setting setting_;
  World world_;
  std::map<State, std::vector<double>> laws_;
};

}  // namespace

std::vector<double> TargetLaw(const Setting& setting) {
  World world(setting);
  std::vector<double> law;
  Tokens path;
  ForEachPath(setting, world, path, 1,
              [&](const Tokens&, double weight) { law.push_back(weight); });
  return law;
}

std::vector<double> RoundsLaw(const Setting& setting) { return Rounds(setting).Law({}); }

double LargestRatio(const Setting& setting, const std::vector<double>& law) {
  World world(setting);
  double largest = 0;
  Tokens path;
  size_t cell = 0;
  // P(first n tokens) is a sum over a run of cells.
  const auto run = [&](size_t cell, size_t length) {
    double sum = 0;
    for (size_t i = 0; i < length; ++i) sum += law[cell / length * length + i];
    return sum;
  };
  ForEachPath(setting, world, path, 1, [&](const Tokens& path, double) {
    size_t length = law.size();
    Tokens before;
    for (uint32_t token : path) {
      const double whole = run(cell, length), part = run(cell, length /= setting.vocabulary);
      const double p = world.P(before, {})(token);
      if (p == 0) {
        EXPECT_EQ(part, 0) << "a token that p rules out";
      }
      if (part > 0) largest = std::max(largest, part / whole / p);
      before.push_back(token);
    }
    ++cell;
  });
  return largest;
}

}  // namespace tandem::acceptance
