// What a pass of several rows costs against one, for a stack of linear layers: our packed kernels,
// at::linear, and oneDNN's packed weights, in fp32 and with bf16 weights; and what ours cost
// against the others, measured in turn. Usage: linear_bench [threads] [rounds] [size of a layer]
// [layers]
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
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

constexpr int kMaxRows = 16;

// A stack of square layers, larger than the cache unless asked otherwise.
struct Shape {
  int size = 4096;
  int layers = 4;                           // 64 MiB each in fp32
  int stride() const { return size + 48; }  // of activations, as a pass lays them out
};

// One way to compute a pass of some rows through a stack.
struct Way {
  std::string name;
  std::function<void(int rows)> pass;
};

Way Ours(const Shape& shape, const std::vector<at::Tensor>& weights, WeightType type, int threads) {
  auto layers = std::make_shared<std::vector<PackedMatrix>>();
  const bool bf16 = type == WeightType::kBfloat16;
  for (const at::Tensor& weight : weights) {
    const at::Tensor source = bf16 ? weight.to(at::kBFloat16) : weight;
    const char* data = static_cast<const char*>(source.const_data_ptr());
    layers->emplace_back(shape.size, shape.size, type, [&](int row) {
      const size_t bytes = static_cast<size_t>(shape.size) * (bf16 ? 2 : 4);
      return SourceRow{data + row * bytes, bf16 ? SourceType::kBfloat16 : SourceType::kFloat32};
    });
  }
  auto team = std::make_shared<model::cpu::ThreadTeam>(threads);
  auto x = std::make_shared<std::vector<float>>(kMaxRows * shape.stride(), 0.5f);
  auto y = std::make_shared<std::vector<float>>(kMaxRows * shape.stride());
  const model::cpu::Kernels& kernels = model::cpu::BestKernels();
  return {std::string("our kernels (") + kernels.name + "), weights " +
              (bf16 ? "bf16, arithmetic fp32" : "fp32"),
          [=, &kernels](int rows) {
            auto work = [&](int member) {
              for (const PackedMatrix& layer : *layers) {
                const int first = layer.panels() * member / threads;
                const int end = layer.panels() * (member + 1) / threads;
                layer.Multiply(kernels, x->data(), shape.stride(), rows, first, end - first,
                               Epilogue::kStore, nullptr, y->data(), shape.stride(), shape.size);
                team->Barrier(member);
              }
            };
            team->Run(work, threads);
          }};
}

std::vector<at::Tensor> To(const std::vector<at::Tensor>& weights, at::ScalarType type) {
  std::vector<at::Tensor> converted;
  for (const at::Tensor& weight : weights) converted.push_back(weight.to(type));
  return converted;
}

Way Stock(const Shape& shape, const std::vector<at::Tensor>& weights, at::ScalarType type) {
  const at::Tensor x = at::randn({kMaxRows, shape.size}).to(type);
  return {std::string("at::linear ") + c10::toString(type),
          [x, layers = To(weights, type)](int rows) {
            for (const at::Tensor& weight : layers) at::linear(x.narrow(0, 0, rows), weight);
          }};
}

at::Tensor CallBoxed(const char* name, std::vector<c10::IValue> arguments) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  op.callBoxed(&arguments);
  return arguments[0].toTensor();
}

// None where oneDNN does not have this type on this processor; says so.
std::optional<Way> OneDnn(const Shape& shape, const std::vector<at::Tensor>& weights,
                          at::ScalarType type) {
  const at::Tensor x = at::randn({kMaxRows, shape.size}).to(type);
  std::vector<at::Tensor> packed;
  try {
    for (const at::Tensor& weight : To(weights, type)) {
      packed.push_back(
          CallBoxed("mkldnn::_reorder_linear_weight", {weight, c10::IValue(int64_t{5})}));
    }
  } catch (const c10::Error& error) {
    std::printf("left out, oneDNN with %s: %s\n", c10::toString(type), error.msg().c_str());
    return std::nullopt;
  }
  return Way{std::string("oneDNN packed (mkldnn::_linear_pointwise) ") + c10::toString(type),
             [x, packed](int rows) {
               for (const at::Tensor& weight : packed) {
                 CallBoxed("mkldnn::_linear_pointwise",
                           {x.narrow(0, 0, rows), weight, c10::IValue(), "none",
                            c10::List<std::optional<at::Scalar>>(), ""});
               }
             }};
}

// Of this thread on a processor: what other processes take does not count.
double ProcessorMicroseconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  };
  const double start = now();
  work();
  return now() - start;
}

// The time of `ours` against each other way's. A round's time is the least of five turns, in which
// all ways follow each other. With one thread the time is the processor's, else the clock's.
void MeasurePrice(const Way& ours, const std::vector<const Way*>& others, int threads, int rounds) {
  std::printf("\nprice of %s\n", ours.name.c_str());
  const auto clock = threads == 1 ? ProcessorMicroseconds : Microseconds;
  for (int rows : {1, 5, 8, 16}) {
    std::vector<std::vector<double>> ratios(others.size());
    double min_of_ours = INFINITY;
    std::vector<double> min(others.size(), INFINITY);
    for (int round = 0; round < rounds; ++round) {
      double time = INFINITY;
      std::vector<double> times(others.size(), INFINITY);
      for (int turn = 0; turn < 5; ++turn) {
        time = std::min(time, clock([&] { ours.pass(rows); }));
        for (size_t i = 0; i < others.size(); ++i) {
          times[i] = std::min(times[i], clock([&] { others[i]->pass(rows); }));
        }
      }
      min_of_ours = std::min(min_of_ours, time);
      for (size_t i = 0; i < others.size(); ++i) {
        min[i] = std::min(min[i], times[i]);
        ratios[i].push_back(time / times[i]);
      }
    }
    for (size_t i = 0; i < others.size(); ++i) {
      const Spread ratio = SpreadOf(ratios[i]);
      std::printf("%4d rows   %.2f / %.2f / %.2f, least times %.2f (%.0f us to %.0f us)   of %s\n",
                  rows, ratio.min, ratio.median, ratio.max, min_of_ours / min[i], min_of_ours,
                  min[i], others[i]->name.c_str());
    }
  }
  std::fflush(stdout);
}

void Main(int threads, int rounds, const Shape& shape) {
  at::set_num_threads(threads);
  c10::InferenceMode inference;
  std::printf("%d layers of %d x %d, %d threads, %d rounds; times of the whole stack\n",
              shape.layers, shape.size, shape.size, threads, rounds);
  std::vector<at::Tensor> weights;
  for (int i = 0; i < shape.layers; ++i) weights.push_back(at::randn({shape.size, shape.size}));
  const Way ours = Ours(shape, weights, WeightType::kFloat32, threads);
  const Way ours_bf16 = Ours(shape, weights, WeightType::kBfloat16, threads);
  const Way stock = Stock(shape, weights, at::kFloat);
  const Way stock_bf16 = Stock(shape, weights, at::kBFloat16);
  const std::optional<Way> packed = OneDnn(shape, weights, at::kFloat);
  const std::optional<Way> packed_bf16 = OneDnn(shape, weights, at::kBFloat16);
  std::vector<const Way*> peers = {&stock};
  if (packed) peers.push_back(&*packed);
  std::vector<const Way*> peers_bf16 = {&stock_bf16};
  if (packed_bf16) peers_bf16.push_back(&*packed_bf16);
  for (const Way* way : {&ours, &ours_bf16}) MeasureRows(way->name, rounds, way->pass);
  for (const Way* way : peers) MeasureRows(way->name, rounds, way->pass);
  for (const Way* way : peers_bf16) MeasureRows(way->name, rounds, way->pass);
  MeasurePrice(ours, peers, threads, rounds);
  MeasurePrice(ours_bf16, peers_bf16, threads, rounds);
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  tandem::bench::Shape shape;
  if (argc > 3) shape.size = std::atoi(argv[3]);
  if (argc > 4) shape.layers = std::atoi(argv[4]);
  tandem::bench::Main(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? std::atoi(argv[2]) : 15, shape);
}
