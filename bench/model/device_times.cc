// What passes of a device take, at the lengths that people use: by the device's own clock, without
// a copy of logits. `-`: the cache has no room.
//
//   rows of one sequence   a block of draft tokens, or a piece of a prompt
//   rows of many           one row of each sequence
//   prompts                read from the first token on, in passes of the most rows
//
// `share`: the bytes that a pass cannot avoid (weights once, keys and values once per sequence) per
// time, of the speed at which the device copies, read and write counted.
//
// Usage: device_times MODEL [cuda, cuda:N or torch-cpu] [dtype] [cells] [rows] [prompts]
//   lists with commas; without them 0,300,2048,8192,32768 and 1,2,5,8,16,64,256 and 2048,8192,32768
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "bench/model/memory_speed.h"
#include "common/base/status_macros.h"
#include "model/dtype.h"
#include "model/load.h"
#include "model/paged_cache.h"
#include "torch/kernels/cuda_buffer.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/load.h"
#include "torch/torch_model.h"

namespace tandem::bench {
namespace {

using kernels::CudaBuffer;
using kernels::CudaDriver;
using model::PagedCache;
using torch::TorchModel;

constexpr int kTimes = 5;  // of which the shortest counts

// Of what lies between two points of the device's stream; on a processor, of the host.
class Timer {
 public:
  // `stream`: as StepInfo has it.
  static absl::StatusOr<std::unique_ptr<Timer>> Make(int card, std::optional<void*> stream) {
    auto timer = std::unique_ptr<Timer>(new Timer);
    timer->stream_ = stream;
    if (!stream.has_value()) return timer;
    TANDEM_ASSIGN_OR_RETURN(timer->driver_, CudaDriver::Load(card));
    TANDEM_RETURN_IF_ERROR(timer->driver_->MakeCurrent());
    TANDEM_ASSIGN_OR_RETURN(timer->begin_, timer->driver_->MakeEvent());
    TANDEM_ASSIGN_OR_RETURN(timer->end_, timer->driver_->MakeEvent());
    return timer;
  }

  template <typename Work>
  absl::StatusOr<absl::Duration> Time(Work work) {
    const auto began = std::chrono::steady_clock::now();
    if (!stream_.has_value()) {
      TANDEM_RETURN_IF_ERROR(work());
      return absl::FromChrono(std::chrono::steady_clock::now() - began);
    }
    const kernels::DriverFunctions& driver = driver_->functions();
    TANDEM_RETURN_IF_ERROR(driver_->Checked(driver.record_event(begin_, *stream_), "recording"));
    TANDEM_RETURN_IF_ERROR(work());
    TANDEM_RETURN_IF_ERROR(driver_->Checked(driver.record_event(end_, *stream_), "recording"));
    TANDEM_RETURN_IF_ERROR(driver_->Checked(driver.wait_for_event(end_), "waiting for the card"));
    float milliseconds = 0;
    TANDEM_RETURN_IF_ERROR(driver_->Checked(driver.elapsed_time(&milliseconds, begin_, end_),
                                            "reading the card's clock"));
    return absl::Milliseconds(double{milliseconds});
  }

  // Bytes per second, read and written.
  absl::StatusOr<double> CopySpeed(int threads) {
    if (!stream_.has_value()) return MemorySpeed(threads).Measure() * 1e6;
    using Copy = int (*)(uint64_t to, uint64_t from, size_t bytes, void* stream);
    const auto copy = reinterpret_cast<Copy>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemcpyDtoDAsync_v2"));
    if (copy == nullptr) return absl::InternalError("the driver has no copy on the card");
    constexpr size_t kBytes = size_t{512} << 20;
    CudaBuffer from(*driver_, CudaBuffer::Place::kDevice), to(*driver_, CudaBuffer::Place::kDevice);
    TANDEM_RETURN_IF_ERROR(from.Grow(kBytes));
    TANDEM_RETURN_IF_ERROR(to.Grow(kBytes));
    const auto from_at = reinterpret_cast<uint64_t>(from.at<void>(0));
    const auto to_at = reinterpret_cast<uint64_t>(to.at<void>(0));
    absl::Duration least = absl::InfiniteDuration();
    for (int time = 0; time < kTimes; ++time) {
      TANDEM_ASSIGN_OR_RETURN(const absl::Duration took, Time([&] {
                                return driver_->Checked(copy(to_at, from_at, kBytes, *stream_),
                                                        "copying on the card");
                              }));
      least = std::min(least, took);
    }
    return 2.0 * static_cast<double>(kBytes) / absl::ToDoubleSeconds(least);
  }

 private:
  Timer() = default;

  std::unique_ptr<CudaDriver> driver_;
  std::optional<void*> stream_;
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

// Sequences of `cells` tokens, of which nothing was computed: what lies in their cells is as good
// as any.
absl::StatusOr<std::vector<std::unique_ptr<model::Cache>>> Sequences(TorchModel& model, int count,
                                                                     int cells, int rows) {
  std::vector<std::unique_ptr<model::Cache>> caches;
  for (int i = 0; i < count; ++i) {
    TANDEM_ASSIGN_OR_RETURN(auto cache, model.NewCache(cells + rows));
    if (cells > 0) static_cast<PagedCache&>(*cache).Grow(cells, {});
    caches.push_back(std::move(cache));
  }
  return caches;
}

// Of a pass of `count` sequences with `rows` rows each, all of which have logits. Absent: no room.
absl::StatusOr<std::optional<absl::Duration>> PassTime(TorchModel& model, Timer& timer, int count,
                                                       int cells, int rows) {
  auto caches = Sequences(model, count, cells, rows);
  const bool too_long = cells + rows > static_cast<int>(model.info().context_length);
  if (too_long || absl::IsResourceExhausted(caches.status())) return std::nullopt;
  TANDEM_RETURN_IF_ERROR(caches.status());
  const std::vector<uint32_t> tokens(static_cast<size_t>(rows), 0);
  absl::Duration least = absl::InfiniteDuration();
  for (int time = 0; time < kTimes; ++time) {
    std::vector<model::ForwardPart> parts;
    for (const auto& cache : *caches) {
      cache->Truncate(cells);
      parts.push_back({cache.get(), tokens, 0});
    }
    TANDEM_ASSIGN_OR_RETURN(const absl::Duration took,
                            timer.Time([&] { return model.Compute(parts); }));
    least = std::min(least, took);
  }
  return least;
}

absl::StatusOr<std::optional<absl::Duration>> PromptTime(TorchModel& model, Timer& timer,
                                                         int length) {
  if (length > static_cast<int>(model.info().context_length)) return std::nullopt;
  auto cache = model.NewCache(length);
  if (absl::IsResourceExhausted(cache.status())) return std::nullopt;
  TANDEM_RETURN_IF_ERROR(cache.status());
  const std::vector<uint32_t> tokens(static_cast<size_t>(model.max_rows()), 0);
  return timer.Time([&]() -> absl::Status {
    for (int at = 0; at < length; at += model.max_rows()) {
      const int rows = std::min(model.max_rows(), length - at);
      const bool last = at + rows == length;
      const model::ForwardPart part{cache->get(), absl::MakeSpan(tokens).first(rows),
                                    last ? rows - 1 : rows};
      TANDEM_RETURN_IF_ERROR(model.Compute({part}));
    }
    return absl::OkStatus();
  });
}

struct Sizes {
  std::vector<int> cells = {0, 300, 2048, 8192, 32768};
  std::vector<int> rows = {1, 2, 5, 8, 16, 64, 256};
  std::vector<int> prompts = {2048, 8192, 32768};
};

absl::Status Print(const torch::LoadOptions& options, const Sizes& sizes) {
  model::LoadReport report;
  torch::LoadOptions load = options;
  load.model.report = &report;
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<TorchModel> model, torch::Load(load));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Timer> timer,
                          Timer::Make(options.card, model->step().info().stream));
  TANDEM_ASSIGN_OR_RETURN(const double speed, timer->CopySpeed(options.model.threads));
  std::printf("%s\n%s\n", model->info().numerics_id.c_str(), report.Text().c_str());
  std::printf("copies %.0f GB/s\n\n", speed / 1e9);
  const double token_bytes =
      static_cast<double>(report.cache_bytes) / static_cast<double>(report.cache_tokens);
  std::printf("%6s %5s | %12s %6s | %12s %6s\n", "cells", "rows", "one seq. ms", "share", "many ms",
              "share");
  for (const int cells : sizes.cells) {
    for (const int rows : sizes.rows) {
      if (rows > model->max_rows()) continue;
      std::printf("%6d %5d", cells, rows);
      for (const bool many : {false, true}) {
        const int count = many ? rows : 1;
        TANDEM_ASSIGN_OR_RETURN(const auto took,
                                PassTime(*model, *timer, count, cells, many ? 1 : rows));
        if (!took.has_value()) {
          std::printf(" | %12s %6s", "-", "-");
          continue;
        }
        const double bytes =
            static_cast<double>(report.weight_bytes) + token_bytes * count * (cells + 1);
        std::printf(" | %12.3f %5.0f%%", absl::ToDoubleMilliseconds(*took),
                    100 * bytes / absl::ToDoubleSeconds(*took) / speed);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  std::printf("\nprompt  tokens per second\n");
  for (const int length : sizes.prompts) {
    TANDEM_ASSIGN_OR_RETURN(const auto took, PromptTime(*model, *timer, length));
    if (!took.has_value()) continue;
    std::printf("%6d  %.0f\n", length, length / absl::ToDoubleSeconds(*took));
  }
  return absl::OkStatus();
}

// False: it is not a list of whole numbers from `least` on.
bool ReadList(const char* text, int least, std::vector<int>& numbers) {
  numbers.clear();
  for (const absl::string_view one : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(one, &numbers.emplace_back()) || numbers.back() < least) return false;
  }
  return true;
}

}  // namespace

int Main(int argc, char** argv) {
  Sizes sizes;
  const auto dtype = model::ParseDtype(argc > 3 ? argv[3] : "auto");
  if (argc < 2 || argc > 7 || !dtype.ok() || (argc > 4 && !ReadList(argv[4], 0, sizes.cells)) ||
      (argc > 5 && !ReadList(argv[5], 1, sizes.rows)) ||
      (argc > 6 && !ReadList(argv[6], 1, sizes.prompts))) {
    std::fprintf(stderr,
                 "usage: device_times MODEL [cuda, cuda:N or torch-cpu] [dtype] [cells] [rows] "
                 "[prompts], lists with commas\n");
    return 2;
  }
  const torch::DeviceChoice device = torch::ParseDevice(argc > 2 ? argv[2] : torch::kCuda);
  torch::LoadOptions options;
  options.model.directory = argv[1];
  options.model.threads = model::DefaultThreads(/*max=*/16);
  options.model.dtype = *dtype;
  options.device = device.device;
  options.card = device.card;
  options.gpu_memory_utilization = device.device == torch::kCuda ? 0.9 : 0;
  const absl::Status status = Print(options, sizes);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
