// Where a verify pass goes from memory-bound to compute-bound: its time by k guesses of w tokens after contexts
// of several lengths, as N-Grammys measure it (Stewart et al. 2024, arXiv 2411.03786). The guesses share
// the root and nothing else, so a pass has 1 + k w rows. Random weights of 0.21 B parameters. Prints
// tab-separated values, which pass_grid.py draws; progress goes to stderr.
// Usage: pass_grid [threads] [turns] [dtype of the weights: BF16 or F32]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/model/random_model.h"
#include "bench/model/timing.h"
#include "common/base/check.h"

namespace tandem::bench {
namespace {

constexpr int kChunk = 256;

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::string dtype = argc > 3 ? argv[3] : "BF16";
  const std::vector<int> contexts = {25, 100, 500, 4000};
  const std::vector<int> guesses = {1, 2, 5, 10, 20, 25};
  const std::vector<int> lengths = {3, 5, 7, 9, 11, 15};  // w + 1
  const int max_rows = 1 + guesses.back() * (lengths.back() - 1);
  const auto model =
      RandomModel(RandomSpec(1024, 2816, 16, 16, 4, 32000, 8192), dtype.c_str(),
                  model::Dtype::kAuto, threads, 8192, model::cpu::WeightType::kFloat32, max_rows);
  std::printf("context\tk\tw+1\trows\tmedian us\tleast us\tone row us\n");
  for (const int context : contexts) {
    auto cache = *model->NewCache(context + max_rows);
    const std::vector<uint32_t> tokens(std::max(max_rows, kChunk), 7);
    while (cache->length() < context) {
      const int rows = std::min(kChunk, context - cache->length());
      TANDEM_CHECK(
          model->Forward({{cache.get(), absl::MakeConstSpan(tokens).first(rows), rows}}).ok());
    }
    const auto time = [&](int k, int w) {
      std::vector<int> parents = {-1};
      for (int guess = 0; guess < k; ++guess) {
        for (int depth = 0; depth < w; ++depth) {
          parents.push_back(depth == 0 ? 0 : static_cast<int>(parents.size()) - 1);
        }
      }
      cache->Truncate(context);
      const double took = Microseconds([&] {
        TANDEM_CHECK_OK(
            model
                ->Forward(
                    {{cache.get(), absl::MakeConstSpan(tokens).first(parents.size()), 0, parents}})
                .status());
      });
      cache->Keep({});
      return took;
    };
    std::vector<double> ones;
    std::vector<std::vector<double>> times(guesses.size() * lengths.size());
    for (int turn = 0; turn < turns; ++turn) {
      std::fprintf(stderr, "context %d, turn %d of %d\n", context, turn + 1, turns);
      for (int i = 0; i < 5; ++i) ones.push_back(time(0, 0));
      for (size_t i = 0; i < times.size(); ++i) {
        const int k = guesses[i / lengths.size()], w = lengths[i % lengths.size()] - 1;
        times[i].push_back(time(k, w));
      }
    }
    for (size_t i = 0; i < times.size(); ++i) {
      const int k = guesses[i / lengths.size()], w = lengths[i % lengths.size()] - 1;
      const Spread spread = SpreadOf(times[i]);
      std::printf("%d\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\n", context, k, w + 1, 1 + k * w, spread.median,
                  spread.min, SpreadOf(ones).median);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
