// What a pass costs by rows, context and the type that weights are held as: random weights in the
// shapes of models that people have. Each round measures all rows, and how fast as many
// threads read memory: what one row reads of weights, keys and values per second is compared with
// that.
// Usage: dtype_bench [rounds] [threads] [shape: all, 135M, 0.5B, 1B, 7B] [contexts and dtypes …]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/arguments.h"
#include "bench/model/memory_speed.h"
#include "bench/model/random_model.h"
#include "bench/model/shapes.h"
#include "bench/model/timing.h"

namespace tandem::bench {
namespace {

int64_t WeightBytes(const model::DecoderSpec& spec, double bytes_per_weight) {
  const int64_t hidden = spec.hidden_size;
  const int64_t layer = hidden * (spec.q_size() + 2 * spec.kv_size()) + spec.q_size() * hidden +
                        3 * hidden * spec.intermediate_size;
  return static_cast<int64_t>(
      bytes_per_weight *
      static_cast<double>(spec.layers * layer + hidden * int64_t{spec.vocabulary_size}));
}

double BytesPerWeight(model::Dtype dtype) {
  if (dtype == model::Dtype::kInt4) return 0.625;  // with scales and minimums
  if (dtype == model::Dtype::kInt8) return 1.0625;
  return dtype == model::Dtype::kBfloat16 ? 2 : 4;
}

int64_t CacheBytes(const model::DecoderSpec& spec, int context, int bytes_per_value) {
  return int64_t{2} * spec.kv_size() * spec.layers * context * bytes_per_value;
}

// `contexts` ascend.
void Measure(const Shape& shape, model::Dtype dtype, const std::vector<int>& contexts, int threads,
             int rounds) {
  const bool fp32 = dtype == model::Dtype::kFloat32;
  const bool bf16 = dtype == model::Dtype::kBfloat16;
  const int longest = contexts.back();
  auto model =
      RandomModel(shape.spec, bf16 ? "BF16" : "F32", dtype, threads, longest + 512,
                  fp32 ? model::cpu::WeightType::kFloat32 : model::cpu::WeightType::kBfloat16);
  auto cache = std::move(model->NewCache(longest + 16)).value();
  const std::vector<uint32_t> tokens(256, 7);
  MemorySpeed memory(threads);
  int filled = 0;
  for (const int context : contexts) {
    cache->Truncate(filled);
    while (filled < context) {
      const int rows = std::min(context - filled, 256);
      const auto part = absl::MakeSpan(tokens).first(rows);
      if (!model->Forward({{cache.get(), part, rows}}).ok()) std::abort();
      filled += rows;
    }
    const double bytes = static_cast<double>(WeightBytes(shape.spec, BytesPerWeight(dtype)) +
                                             CacheBytes(shape.spec, context, fp32 ? 4 : 2));
    RowTimes times({1, 2, 4, 5, 8, 16});
    std::vector<double> speeds;
    std::vector<double> shares;
    for (int round = -1; round < rounds; ++round) {
      const double memory_speed = memory.Measure();
      times.Round(
          round >= 0, [&] { cache->Truncate(context); },
          [&](int rows) {
            if (!model->Forward({{cache.get(), absl::MakeSpan(tokens).first(rows), 0}}).ok()) {
              std::abort();
            }
          });
      if (round < 0) continue;  // warms up
      speeds.push_back(bytes / times.first().back());
      shares.push_back(speeds.back() / memory_speed);
    }
    const Spread speed = SpreadOf(speeds);
    const Spread share = SpreadOf(shares);
    std::printf(
        "\n%s, %s, context %d (%s): one row reads weights and cache at %.1f / %.1f / %.1f GB/s, "
        "%.2f / %.2f / %.2f of memory's speed\n",
        shape.what, DtypeName(dtype), context, fp32 ? "cache fp32" : "cache bf16", speed.min / 1e3,
        speed.median / 1e3, speed.max / 1e3, share.min, share.median, share.max);
    times.Print();
  }
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  const int rounds = tandem::bench::NumberArgument(argc, argv, 1, 10);
  const int threads = tandem::bench::NumberArgument(argc, argv, 2, 2);
  const std::string wanted = argc > 3 ? argv[3] : "all";
  std::vector<int> contexts;
  std::vector<tandem::model::Dtype> dtypes;
  for (int i = 4; i < argc; ++i) {
    if (const int context = std::atoi(argv[i]); context > 0) {
      contexts.push_back(context);
    } else if (const auto dtype = tandem::model::ParseDtype(argv[i]); dtype.ok()) {
      dtypes.push_back(*dtype);
    } else {
      std::fprintf(stderr, "%s\n", std::string(dtype.status().message()).c_str());
      return 2;
    }
  }
  if (contexts.empty()) contexts = {128, 2048, 8192};
  if (dtypes.empty()) {
    dtypes = {tandem::model::Dtype::kFloat32, tandem::model::Dtype::kBfloat16,
              tandem::model::Dtype::kInt8, tandem::model::Dtype::kInt4};
  }
  std::sort(contexts.begin(), contexts.end());
  std::printf("%d threads; least / median / most of %d rounds\n", threads, rounds);
  for (const tandem::bench::Shape& shape : tandem::bench::Shapes(contexts.back() + 16)) {
    if (wanted != "all" && wanted != shape.name) continue;
    for (tandem::model::Dtype dtype : dtypes) {
      tandem::bench::Measure(shape, dtype, contexts, threads, rounds);
    }
  }
}
