// A model of random weights that computes passes when it is asked to (turns.h), beside another
// program that does the same.
// Usage: pass_turns SHAPE(135M, 0.5B, 1B, 7B) DTYPE KV_DTYPE(fp32, bf16) THREADS CONTEXT …
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/arguments.h"
#include "bench/model/random_model.h"
#include "bench/model/shapes.h"
#include "bench/model/turns.h"

namespace tandem::bench {
namespace {

constexpr int kChunk = 256;
constexpr int kMaxRows = 16;

int Main(const Shape& shape, model::Dtype dtype, bool narrow_cache, int threads,
         const std::vector<int>& contexts) {
  int64_t pool = 0;
  for (int context : contexts) pool += context + kMaxRows + 256;
  const bool bf16 = dtype == model::Dtype::kBfloat16;
  auto model = RandomModel(
      shape.spec, bf16 ? "BF16" : "F32", dtype, threads, pool,
      narrow_cache ? model::cpu::WeightType::kBfloat16 : model::cpu::WeightType::kFloat32);
  const std::vector<uint32_t> tokens(kChunk, 7);
  std::map<int, std::unique_ptr<model::Cache>> caches;
  const auto pass = [&](model::Cache& cache, int rows, int skip) {
    if (!model->Forward({{&cache, absl::MakeSpan(tokens).first(rows), skip}}).ok()) std::abort();
  };
  for (int context : contexts) {
    auto& cache = caches[context] = std::move(model->NewCache(context + kMaxRows)).value();
    for (int left = context; left > 0; left -= std::min(left, kChunk)) {
      pass(*cache, std::min(left, kChunk), std::min(left, kChunk));
    }
  }
  ServeTurns([&](int context) { caches.at(context)->Truncate(context); },
             [&](int context, int rows) { pass(*caches.at(context), rows, 0); });
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const std::vector<int> contexts = tandem::bench::NumberArguments(argc, argv, 5);
  if (contexts.empty() || *std::min_element(contexts.begin(), contexts.end()) < 1) {
    std::fprintf(stderr, "usage: pass_turns SHAPE DTYPE KV_DTYPE THREADS CONTEXT …\n");
    return 2;
  }
  const auto dtype = tandem::model::ParseDtype(argv[2]);
  if (!dtype.ok()) {
    std::fprintf(stderr, "%s\n", std::string(dtype.status().message()).c_str());
    return 2;
  }
  const int longest = *std::max_element(contexts.begin(), contexts.end());
  for (const tandem::bench::Shape& shape : tandem::bench::Shapes(longest + 16)) {
    if (shape.name != std::string(argv[1])) continue;
    return tandem::bench::Main(shape, *dtype, argv[3] == std::string("bf16"), std::atoi(argv[4]),
                               contexts);
  }
  std::fprintf(stderr, "%s: no such shape\n", argv[1]);
  return 2;
}
