// Block and coupled beside speculative, on the same drafted blocks: how many candidates each
// accepts on average over its own draws, told from the verdicts without sampling
// (common/acceptance/expected.h). What is left of chance is in the prefixes, which the target
// writes, and in the blocks, which the draft draws; both seeded, so the table is the same wherever
// the models' bits are. Usage: rules_bench [target] [draft] [prefixes] [blocks a prefix]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/acceptance/block.h"
#include "common/acceptance/expected.h"
#include "common/acceptance/speculative.h"
#include "common/base/check.h"
#include "common/speculation/candidate_tree.h"
#include "model/load.h"

namespace tandem::bench {
namespace {

using acceptance::Entry;
using acceptance::Rule;
using sampling::Distribution;
using sampling::SamplingParameters;
using sampling::SparseDistribution;
using speculation::CandidateTree;
using Tokens = std::vector<uint32_t>;

constexpr int kLongest = 8;  // candidates; shorter blocks are their beginnings
constexpr int kMaxTokens = 160;
constexpr uint64_t kSeed = 2026;

// A model with one sequence.
class Writer {
 public:
  explicit Writer(const std::string& directory) {
    model::LoadOptions options;
    options.directory = directory;
    auto loaded = model::Load(options);
    TANDEM_CHECK_OK(loaded.status());
    model_ = *std::move(loaded);
    auto cache = model_->NewCache(kMaxTokens);
    TANDEM_CHECK_OK(cache.status());
    cache_ = *std::move(cache);
  }

  void Truncate(size_t length) { cache_->Truncate(static_cast<int>(length)); }

  // Appends tokens; what follows each of them.
  std::vector<Distribution> Forward(const Tokens& tokens, double temperature) {
    const model::ForwardPart part{.cache = cache_.get(), .tokens = tokens};
    auto logits = model_->Forward({&part, 1});
    TANDEM_CHECK_OK(logits.status());
    std::vector<Distribution> p;
    for (int row = 0; row < logits->rows; ++row) {
      p.push_back(sampling::MakeDistribution(logits->row(row), model_->info().vocabulary_size,
                                             {.temperature = temperature}));
    }
    return p;
  }

 private:
  std::unique_ptr<model::LanguageModel> model_;
  std::unique_ptr<model::Cache> cache_;
};

// 32 to 127 tokens from the beginning of a document, drawn from the target itself.
Tokens Prefix(Writer& target, uint64_t seed) {
  Tokens prefix = {0};
  target.Truncate(0);
  const size_t length = 32 + seed * 37 % 96;
  while (prefix.size() < length) {
    const Distribution p = target.Forward({prefix.back()}, 1).back();
    prefix.push_back(sampling::DrawRace(p, seed, 0, static_cast<uint32_t>(prefix.size())));
  }
  return prefix;
}

// Both caches hold the prefix but for its last token, before and after.
CandidateTree DraftBlock(Writer& draft, const Tokens& prefix, double temperature, uint32_t number) {
  CandidateTree block;
  const random::RoundKey key{random::DeriveDraftSeed(kSeed), number % 65536,
                             static_cast<uint32_t>(prefix.size())};
  uint32_t last = prefix.back();
  for (uint32_t i = 0; i < kLongest; ++i) {
    block.q.push_back(
        Sparsify(draft.Forward({last}, temperature).back(), sampling::kMaxSparseEntries));
    last = Draw(block.q.back(), random::Uniform(key, key.committed + i, random::Purpose::kDraft));
    block.tokens.push_back(last);
  }
  draft.Truncate(prefix.size() - 1);
  return block;
}

// Of one block's first `length` candidates: E[accepted] under each rule.
struct Expected {
  double speculative = 0, block = 0, coupled = 0;
};

Expected Judge(const std::vector<Distribution>& p, const CandidateTree& block, size_t length) {
  std::vector<const SparseDistribution*> q;
  std::vector<Entry> coupled(1);
  for (size_t i = 0; i < length; ++i) {
    q.push_back(&block.q[i]);
    Entry entry;
    entry.accept_probability =
        acceptance::CoupledAcceptProbability(p[i], block.tokens[i], block.q[i]);
    coupled.push_back(entry);
  }
  const auto rows = absl::MakeConstSpan(p).first(length + 1);
  const auto candidates = absl::MakeConstSpan(block.tokens).first(length);
  const std::vector<double> replace(length, 0.5);  // what is drawn after it does not matter here
  return {acceptance::ExpectedAccepted(
              Rule::kSpeculative, acceptance::JudgeSpeculative(rows, candidates, q, replace, 0.5)),
          acceptance::ExpectedAccepted(Rule::kBlock,
                                       acceptance::JudgeBlock(rows, candidates, q, replace, 0.5)),
          acceptance::ExpectedAccepted(Rule::kCoupled, coupled)};
}

// Two-sided: how likely a fair coin is as far from even. Ties are left out.
double SignTest(const std::vector<double>& gains) {
  int more = 0, less = 0;
  for (double gain : gains) {
    if (gain > 1e-12) ++more;
    if (gain < -1e-12) ++less;
  }
  const int n = more + less, k = std::max(more, less);
  double tail = 0;
  for (int i = k; i <= n; ++i) {
    tail += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0) -
                     n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

// "+0.05, +2.1 % | −0.10 / +0.04 / +0.31 | 40 of 48, 1e-9"
std::string Gain(std::vector<double> gains, double base) {
  double sum = 0;
  size_t more = 0;
  for (double gain : gains) {
    sum += gain;
    if (gain > 0) ++more;
  }
  const double mean = sum / static_cast<double>(gains.size()), p = SignTest(gains);
  std::sort(gains.begin(), gains.end());
  char text[160];
  std::snprintf(text, sizeof(text), "%+.3f (%+.1f %%) | %+.3f / %+.3f / %+.3f | %zu of %zu | %.1e",
                mean, 100 * mean / base, gains.front(), gains[gains.size() / 2], gains.back(), more,
                gains.size(), p);
  return text;
}

int Main(int argc, char** argv) {
  Writer target(argc > 1 ? argv[1] : "demo/target"), draft(argc > 2 ? argv[2] : "demo/draft");
  const int prefixes = argc > 3 ? std::atoi(argv[3]) : 48;
  const int blocks = argc > 4 ? std::atoi(argv[4]) : 32;
  TANDEM_CHECK(prefixes > 0 && blocks > 0);
  const std::vector<double> temperatures = {0.3, 0.7, 1.0, 1.3};
  const std::vector<size_t> lengths = {4, kLongest};
  // [temperature][length][prefix], means over its blocks
  std::vector<std::vector<std::vector<Expected>>> means(
      temperatures.size(),
      std::vector<std::vector<Expected>>(lengths.size(), std::vector<Expected>(prefixes)));
  for (int number = 0; number < prefixes; ++number) {
    const Tokens prefix = Prefix(target, kSeed + static_cast<uint64_t>(number));
    target.Truncate(prefix.size() - 1);
    draft.Truncate(0);
    draft.Forward({prefix.begin(), prefix.end() - 1}, 1);
    for (size_t t = 0; t < temperatures.size(); ++t) {
      for (int b = 0; b < blocks; ++b) {
        const CandidateTree block =
            DraftBlock(draft, prefix, temperatures[t], static_cast<uint32_t>(number * blocks + b));
        Tokens row = {prefix.back()};
        row.insert(row.end(), block.tokens.begin(), block.tokens.end());
        const std::vector<Distribution> p = target.Forward(row, temperatures[t]);
        target.Truncate(prefix.size() - 1);
        for (size_t k = 0; k < lengths.size(); ++k) {
          const Expected one = Judge(p, block, lengths[k]);
          Expected& mean = means[t][k][number];
          mean.speculative += one.speculative / blocks;
          mean.block += one.block / blocks;
          mean.coupled += one.coupled / blocks;
        }
      }
    }
  }
  std::printf("%d prefixes, %d blocks each\n\n", prefixes, blocks);
  std::printf(
      "| rule | temperature | K | accepted | speculative | gain a block, mean | min / median "
      "/ max over prefixes | prefixes with a gain | sign test p |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, member] :
       {std::pair("block", &Expected::block), std::pair("coupled", &Expected::coupled)}) {
    for (size_t t = 0; t < temperatures.size(); ++t) {
      for (size_t k = 0; k < lengths.size(); ++k) {
        std::vector<double> gains;
        double sum = 0, base = 0;
        for (const Expected& mean : means[t][k]) {
          gains.push_back(mean.*member - mean.speculative);
          sum += mean.*member / prefixes;
          base += mean.speculative / prefixes;
        }
        std::printf("| %s | %.1f | %zu | %.3f | %.3f | %s |\n", name, temperatures[t], lengths[k],
                    sum, base, Gain(gains, base).c_str());
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
