// A model, of random weights or from its files, that computes passes when it is asked to (turns.h),
// beside another program that does the same.
// Usage: pass_turns SHAPE(135M, 0.5B, 1B, 7B, or a model with a slash in its name) DTYPE
// KV_DTYPE(fp32, bf16) THREADS CONTEXT …
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
#include "model/load.h"

namespace tandem::bench {
namespace {

constexpr int kChunk = 256;
constexpr int kMaxRows = 16;

struct Options {
  std::string shape;
  model::Dtype dtype;
  bool narrow_cache;
  int threads;
  std::vector<int> contexts;
};

// Null: there is no such shape or model, and that was said.
std::unique_ptr<model::LanguageModel> Make(const Options& options) {
  int64_t pool = 0;
  for (int context : options.contexts) pool += context + kMaxRows + 256;
  if (options.shape.find('/') != std::string::npos) {
    auto loaded = model::Load(
        {.directory = options.shape,
         .threads = options.threads,
         .pool_tokens = pool,
         .dtype = options.dtype,
         .cache_dtype = options.narrow_cache ? model::Dtype::kBfloat16 : model::Dtype::kAuto});
    if (loaded.ok()) return *std::move(loaded);
    std::fprintf(stderr, "%s\n", loaded.status().ToString().c_str());
    return nullptr;
  }
  const int longest = *std::max_element(options.contexts.begin(), options.contexts.end());
  for (const Shape& shape : Shapes(longest + kMaxRows)) {
    if (shape.name != options.shape) continue;
    return RandomModel(shape.spec, options.dtype == model::Dtype::kBfloat16 ? "BF16" : "F32",
                       options.dtype, options.threads, pool,
                       options.narrow_cache ? model::cpu::WeightType::kBfloat16
                                            : model::cpu::WeightType::kFloat32);
  }
  std::fprintf(stderr, "%s: no such shape\n", options.shape.c_str());
  return nullptr;
}

int Main(const Options& options) {
  const auto model = Make(options);
  if (model == nullptr) return 2;
  const std::vector<uint32_t> tokens(kChunk, 7);
  std::map<int, std::unique_ptr<model::Cache>> caches;
  const auto pass = [&](model::Cache& cache, int rows, int skip) {
    if (!model->Forward({{&cache, absl::MakeSpan(tokens).first(rows), skip}}).ok()) std::abort();
  };
  for (int context : options.contexts) {
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
  return tandem::bench::Main(
      {argv[1], *dtype, argv[3] == std::string("bf16"), std::atoi(argv[4]), contexts});
}
