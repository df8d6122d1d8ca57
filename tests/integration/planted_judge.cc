#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/acceptance/block.h"
#include "common/acceptance/speculative.h"
#include "common/concurrency/mutex.h"
#include "common/random/random.h"
#include "tests/integration/planted.h"

namespace tandem::testing {
namespace {

using acceptance::Entry;
using acceptance::JudgeInput;
using random::Purpose;
using random::RoundKey;
using sampling::Distribution;

// Draft tokens that were rejected, all of a sequence, counted by token.
using Leftovers = std::map<uint32_t, uint32_t>;

// What a sequence's history holds when rejected draft tokens are never taken back.
class LeftoverCounts {
 public:
  Leftovers Before(const JudgeInput& input) {
    concurrency::MutexLock lock(mutex_);
    Sequence& sequence = sequences_[{input.key.seed, input.key.sample_index}];
    if (sequence.committed > 0) {
      const size_t accepted = input.key.committed - sequence.committed - 1;
      for (size_t i = accepted; i < sequence.candidates.size(); ++i) {
        ++sequence.leftovers[sequence.candidates[i]];
      }
    }
    sequence.committed = input.key.committed;
    sequence.candidates.assign(input.candidates.begin(), input.candidates.end());
    return sequence.leftovers;
  }

 private:
  struct Sequence {
    uint32_t committed = 0;
    std::vector<uint32_t> candidates;
    Leftovers leftovers;
  };
  concurrency::Mutex mutex_;
  std::map<std::pair<uint64_t, uint32_t>, Sequence> sequences_ TANDEM_GUARDED_BY(mutex_);
};

void Normalise(Distribution& p) {
  double sum = 0;
  for (double probability : p.probabilities) sum += probability;
  for (double& probability : p.probabilities) probability /= sum;
}

// p at temperature 1, with `penalty` more for each leftover.
void Penalise(Distribution& p, const Leftovers& leftovers, double penalty) {
  for (size_t i = 0; i < p.ids.size(); ++i) {
    auto count = leftovers.find(p.ids[i]);
    if (count != leftovers.end()) p.probabilities[i] *= std::exp(-penalty * count->second);
  }
  Normalise(p);
}

void Remove(Distribution& p, absl::Span<const uint32_t> tokens) {
  for (uint32_t token : tokens) {
    auto it = std::lower_bound(p.ids.begin(), p.ids.end(), token);
    if (it == p.ids.end() || *it != token) continue;
    p.probabilities.erase(p.probabilities.begin() + (it - p.ids.begin()));
    p.ids.erase(it);
  }
  Normalise(p);
}

class FaultyJudge {
 public:
  FaultyJudge(const TablePair& pair, JudgeFault fault, const TextsOptions& texts)
      : fault_(fault), texts_(texts), pair_(pair), draft_(DraftTable(pair)) {}

  std::vector<Entry> Judge(JudgeInput input) {
    std::vector<Distribution> p(input.p.begin(), input.p.end());
    ChangeRows(input, p);
    input.p = p;
    if (fault_ == JudgeFault::kOneNoiseForAllSamples) input.key.sample_index = 0;
    if (input.candidates.empty()) return acceptance::Judge(input);
    switch (fault_) {
      case JudgeFault::kRecoveredWithoutCommitted:
        return acceptance::JudgeSpeculative(input.p, input.candidates, input.q,
                                            RecoveredByPosition(input), Bonus(input));
      case JudgeFault::kBlockWithoutCommitted:
        return BlockByPosition(input);
      case JudgeFault::kSameUniformsEachRound:
        return SameEachRound(input);
      default:
        break;
    }
    std::vector<Entry> entries = acceptance::Judge(input);
    ChangeEntries(input, entries);
    return entries;
  }

 private:
  void ChangeRows(const JudgeInput& input, std::vector<Distribution>& p) {
    const bool by_hand = fault_ == JudgeFault::kMinimumByHand;
    const bool no_minimum = fault_ == JudgeFault::kMinimumNotRolledBack;
    if (!by_hand && !no_minimum && fault_ != JudgeFault::kCountsNotRolledBack) return;
    Leftovers leftovers = leftovers_.Before(input);
    if (by_hand) leftovers.clear();
    uint32_t output = input.key.committed - static_cast<uint32_t>(texts_.prompt.size());
    for (const auto& [token, count] : leftovers) output += count;
    for (Distribution& row : p) {
      if (fault_ == JudgeFault::kCountsNotRolledBack) {
        Penalise(row, leftovers, texts_.sampling.frequency_penalty);
      } else if (output < texts_.sampling.min_tokens) {
        Remove(row, texts_.sampling.stop_token_ids);
      }
      ++output;
    }
  }

  void ChangeEntries(const JudgeInput& input, std::vector<Entry>& entries) const {
    for (size_t i = 0; i < input.candidates.size(); ++i) {
      if (!entries[i].next_token.has_value()) continue;
      const uint32_t position = input.key.committed + static_cast<uint32_t>(i);
      const double u = random::Uniform(input.key, position, Purpose::kRecovered);
      if (fault_ == JudgeFault::kResidualMissing) {
        entries[i].next_token = sampling::Draw(input.p[i], u);
      } else if (fault_ == JudgeFault::kResidualOnlyDropsToken) {
        entries[i].next_token =
            acceptance::DrawResidual(input.p[i], input.candidates[i], nullptr, u);
      } else if (fault_ == JudgeFault::kOneUniform) {
        entries[i].next_token = acceptance::DrawResidual(
            input.p[i], input.candidates[i], input.q.empty() ? nullptr : input.q[i],
            random::Uniform(input.key, position, Purpose::kAccept));
      }
    }
    // The last two draft tokens are all that the tables look at.
    if (fault_ == JudgeFault::kBonusFromQ && input.candidates.size() >= 2) {
      const Distribution q = sampling::MakeDistribution(draft_.LogitsAfter(input.candidates),
                                                        pair_.vocabulary, texts_.sampling);
      entries.back().next_token = sampling::Draw(q, Bonus(input));
    }
  }

  static std::vector<double> RecoveredByPosition(const JudgeInput& input) {
    const RoundKey key{input.key.seed, input.key.sample_index, 0};
    std::vector<double> uniforms;
    for (size_t i = 0; i < input.candidates.size(); ++i) {
      uniforms.push_back(random::Uniform(key, input.key.committed + static_cast<uint32_t>(i),
                                         Purpose::kRecovered));
    }
    return uniforms;
  }

  static double Bonus(const JudgeInput& input) {
    const auto candidates = static_cast<uint32_t>(input.candidates.size());
    return random::Uniform(input.key, input.key.committed + candidates, Purpose::kBonus);
  }

  // Makes the orchestrator's tests itself, so that theirs decide nothing.
  static std::vector<Entry> BlockByPosition(const JudgeInput& input) {
    std::vector<Entry> entries = acceptance::JudgeBlock(input.p, input.candidates, input.q,
                                                        RecoveredByPosition(input), Bonus(input));
    const RoundKey key{input.key.seed, input.key.sample_index, 0};
    for (size_t i = 1; i < entries.size(); ++i) {
      const uint32_t position = input.key.committed + static_cast<uint32_t>(i) - 1;
      double& accept = entries[i].accept_probability;
      accept = random::Uniform(key, position, Purpose::kAccept) < accept ? 1 : 0;
    }
    return entries;
  }

  // So here.
  static std::vector<Entry> SameEachRound(JudgeInput input) {
    input.key.committed = 0;
    std::vector<Entry> entries = acceptance::Judge(input);
    for (size_t i = 1; i < entries.size(); ++i) {
      double& accept = entries[i].accept_probability;
      const double u = random::Uniform(input.key, static_cast<uint32_t>(i) - 1, Purpose::kAccept);
      accept = u < accept ? 1 : 0;
    }
    return entries;
  }

  const JudgeFault fault_;
  const TextsOptions texts_;
  const TablePair pair_;
  const TableModel draft_;
  LeftoverCounts leftovers_;
};

}  // namespace

target_service::JudgeFunction PlantedJudge(const TablePair& pair, JudgeFault fault,
                                           const TextsOptions& texts) {
  auto judge = std::make_shared<FaultyJudge>(pair, fault, texts);
  return [judge](const JudgeInput& input) { return judge->Judge(input); };
}

acceptance::Decision DecideBlockAtFirstFailure(acceptance::Rule /*rule*/,
                                               absl::Span<const Entry> entries,
                                               absl::Span<const double> uniforms) {
  uint32_t stands = 0;
  while (stands < uniforms.size() && (uniforms[stands] < entries[stands + 1].accept_probability ||
                                      !entries[stands].next_token.has_value())) {
    ++stands;
  }
  return {stands, *entries[stands].next_token, stands < uniforms.size()};
}

}  // namespace tandem::testing
