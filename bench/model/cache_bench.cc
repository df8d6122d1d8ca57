// What a pass costs at long contexts by the type that keys and values are held as: two narrow layers
// with the heads of Llama-3.2-1B, so that attention is most of a pass. Each round measures both types
// and all rows in turn.
// Usage: cache_bench [rounds] [threads] [contexts …]
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "bench/model/arguments.h"
#include "bench/model/random_model.h"
#include "bench/model/timing.h"

namespace tandem::bench {
namespace {

constexpr int kSizes[] = {1, 2, 4, 5, 8, 16};
constexpr int kChunk = 256;

struct Model {
  Model(int context, int threads, model::cpu::WeightType cache_type)
      : model(RandomModel(RandomSpec(2048, 2048, 2, 32, 8, 4096, context + 16), "BF16",
                          model::Dtype::kAuto, threads, context + 512, cache_type)),
        cache(std::move(model->NewCache(context + 16)).value()) {
    for (int left = context; left > 0; left -= std::min(left, kChunk)) Pass(std::min(left, kChunk));
  }

  void Pass(int rows) {
    if (!model->Forward({{cache.get(), absl::MakeSpan(tokens).first(rows), rows}}).ok()) {
      std::abort();
    }
  }

  std::vector<uint32_t> tokens = std::vector<uint32_t>(kChunk, 7);
  std::unique_ptr<model::LanguageModel> model;
  std::unique_ptr<model::Cache> cache;
};

void Measure(int context, int threads, int rounds) {
  Model wide(context, threads, model::cpu::WeightType::kFloat32);
  Model narrow(context, threads, model::cpu::WeightType::kBfloat16);
  struct Times {
    std::vector<double> wide, narrow, to_wide, wide_to_one, narrow_to_one;
  };
  std::array<Times, std::size(kSizes)> times;
  const auto time = [context](Model& model, int rows) {
    model.cache->Truncate(context);
    return Microseconds([&] { model.Pass(rows); });
  };
  for (int round = -1; round < rounds; ++round) {
    std::array<std::array<double, 2>, std::size(kSizes)> now{};
    for (size_t i = 0; i < times.size(); ++i) {
      now[i] = {time(wide, kSizes[i]), time(narrow, kSizes[i])};
    }
    if (round < 0) continue;  // warms up
    for (size_t i = 0; i < times.size(); ++i) {
      times[i].wide.push_back(now[i][0]);
      times[i].narrow.push_back(now[i][1]);
      times[i].to_wide.push_back(now[i][1] / now[i][0]);
      times[i].wide_to_one.push_back(now[i][0] / now[0][0]);
      times[i].narrow_to_one.push_back(now[i][1] / now[0][1]);
    }
  }
  std::printf("\ncontext %d: ms with fp32, with bf16; bf16 to fp32; to one row: fp32, bf16\n",
              context);
  for (size_t i = 0; i < times.size(); ++i) {
    const Spread ratio = SpreadOf(times[i].to_wide);
    const Spread one = SpreadOf(times[i].wide_to_one);
    const Spread one_narrow = SpreadOf(times[i].narrow_to_one);
    std::printf(
        "  %2d rows %8.2f %8.2f   %.2f / %.2f / %.2f   %.2f / %.2f / %.2f   %.2f / %.2f / %.2f\n",
        kSizes[i], SpreadOf(times[i].wide).median / 1e3, SpreadOf(times[i].narrow).median / 1e3,
        ratio.min, ratio.median, ratio.max, one.min, one.median, one.max, one_narrow.min,
        one_narrow.median, one_narrow.max);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const int rounds = tandem::bench::NumberArgument(argc, argv, 1, 10);
  const int threads = tandem::bench::NumberArgument(argc, argv, 2, 2);
  std::vector<int> contexts = tandem::bench::NumberArguments(argc, argv, 3);
  if (contexts.empty()) contexts = {128, 2048, 8192};
  if (rounds < 1 || threads < 1) {
    std::fprintf(stderr, "usage: cache_bench [rounds] [threads] [contexts …]\n");
    return 2;
  }
  std::printf("%d threads; medians, and least / median / most of %d rounds\n", threads, rounds);
  for (int context : contexts) tandem::bench::Measure(context, threads, rounds);
}
