// What a pass of several rows costs against one, for linear layers larger than the cache: our
// packed kernels, at::linear, and oneDNN's packed weights. Usage: linear_bench [threads] [rounds]
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/timing.h"
#include "model/cpu/packed_matrix.h"
#include "model/cpu/thread_team.h"

namespace tandem::bench {
namespace {

using model::cpu::Epilogue;
using model::cpu::PackedMatrix;
using model::cpu::SourceRow;
using model::cpu::SourceType;
using model::cpu::WeightType;

constexpr int kSize = 4096;
constexpr int kStride = kSize + 48;  // of activations, as a step lays them out
constexpr int kLayers = 4;  // 64 MiB each in fp32: the whole stack is far larger than the cache

void MeasureOurs(const std::vector<at::Tensor>& weights, WeightType type, int threads, int rounds) {
  std::vector<PackedMatrix> layers;
  for (const at::Tensor& weight : weights) {
    const bool bf16 = type == WeightType::kBfloat16;
    const at::Tensor source = bf16 ? weight.to(at::kBFloat16) : weight;
    const char* data = static_cast<const char*>(source.const_data_ptr());
    layers.emplace_back(kSize, kSize, type, [&](int row) {
      const size_t bytes = static_cast<size_t>(kSize) * (bf16 ? 2 : 4);
      return SourceRow{data + row * bytes, bf16 ? SourceType::kBfloat16 : SourceType::kFloat32};
    });
  }
  model::cpu::ThreadTeam team(threads);
  std::vector<float> x(16 * kStride, 0.5f);
  std::vector<float> y(16 * kStride);
  const model::cpu::Kernels& kernels = model::cpu::BestKernels();
  MeasureRows(std::string("packed, our kernels (") + kernels.name + "), weights " +
                  (type == WeightType::kFloat32 ? "fp32" : "bf16, arithmetic fp32"),
              rounds, [&](int rows) {
                auto work = [&](int member) {
                  for (const PackedMatrix& layer : layers) {
                    const int first = layer.panels() * member / threads;
                    const int end = layer.panels() * (member + 1) / threads;
                    layer.Multiply(kernels, x.data(), kStride, rows, first, end - first,
                                   Epilogue::kStore, nullptr, y.data(), kStride, kSize);
                    team.Barrier(member);
                  }
                };
                team.Run(work, threads);
              });
}

void MeasureStock(const std::vector<at::Tensor>& weights, int rounds) {
  const at::Tensor x = at::randn({16, kSize});
  MeasureRows("at::linear fp32", rounds, [&](int rows) {
    for (const at::Tensor& weight : weights) at::linear(x.narrow(0, 0, rows), weight);
  });
}

at::Tensor CallBoxed(const char* name, std::vector<c10::IValue> arguments) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  op.callBoxed(&arguments);
  return arguments[0].toTensor();
}

void MeasureOneDnn(const std::vector<at::Tensor>& weights, int rounds) {
  const at::Tensor x = at::randn({16, kSize});
  std::vector<at::Tensor> packed;
  for (const at::Tensor& weight : weights) {
    packed.push_back(
        CallBoxed("mkldnn::_reorder_linear_weight", {weight, c10::IValue(int64_t{5})}));
  }
  MeasureRows("oneDNN packed fp32 (mkldnn::_linear_pointwise)", rounds, [&](int rows) {
    for (const at::Tensor& weight : packed) {
      CallBoxed("mkldnn::_linear_pointwise", {x.narrow(0, 0, rows), weight, c10::IValue(), "none",
                                              c10::List<std::optional<at::Scalar>>(), ""});
    }
  });
}

void Main(int threads, int rounds) {
  at::set_num_threads(threads);
  c10::InferenceMode inference;
  std::printf("%d layers of %d x %d, %d threads, %d rounds; times of the whole stack\n", kLayers,
              kSize, kSize, threads, rounds);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(at::randn({kSize, kSize}));
  MeasureOurs(weights, WeightType::kFloat32, threads, rounds);
  MeasureOurs(weights, WeightType::kBfloat16, threads, rounds);
  MeasureStock(weights, rounds);
  MeasureOneDnn(weights, rounds);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::Main(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 15);
}
