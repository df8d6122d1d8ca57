// From a Hugging Face directory to a model that LibTorch computes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/language_model.h"
#include "model/load.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// What a --device flag takes: "cpu" is the decoder of model/, the others are LibTorch's.
inline constexpr char kCpu[] = "cpu";
inline constexpr char kTorchCpu[] = "torch-cpu";
inline constexpr char kCuda[] = "cuda";

// Of a target that has a card to itself.
inline constexpr double kGpuMemoryUtilization = 0.9;

struct LoadOptions {
  // As model::Load takes them, but for `compute`: LibTorch's threads are its own. `dtype` is what
  // products are computed in: kAuto is fp32 on a processor, and the file's type on a CUDA device.
  model::LoadOptions model;
  std::string device = kTorchCpu;  // or kCuda
  std::string library;             // path of libtandem_torch.so; empty: library/library.h finds it
  int tile = 0;                    // StepOptions::tile; 0 on a card: the one that suits it best
  // Of a card's free memory, the share that weights, passes and the cache fill where pool_tokens is
  // 0. 0: the cache is as large as on a processor.
  double gpu_memory_utilization = 0;
  // How the kernels of `spans` get to a card.
  absl::StatusOr<std::unique_ptr<kernels::PassKernels>> (*pass_kernels)() =
      kernels::LoadPassKernels;
  std::optional<ComputeType> type;  // what products are computed in; absent: as `dtype` says
};

// Before anything is served the self-check runs on the model's first layers. A way of computing
// that fails it is switched off for the next slower one: the log and numerics_id say so.
//
// Errors as model::Load's, of the library (library/library.h), and of the device
// (library/interface.h). FAILED_PRECONDITION: no way of computing passes.
absl::StatusOr<std::unique_ptr<model::LanguageModel>> Load(const LoadOptions& options);

// The same with a library that is loaded: a fake, in tests. `options.library` is not looked at.
absl::StatusOr<std::unique_ptr<model::LanguageModel>> Load(const LoadOptions& options,
                                                           const Library& library);

// What the self-check (self_check.h) says of a device and a model.
struct DeviceReport {
  bool all_passed = true;        // every way of computing, not only the one that would serve
  std::string numerics_id;       // of what would serve; empty: nothing would
  std::string table;             // for people: each way's checks, and what passes cost
  uint32_t vocabulary_size = 0;  // of the model, where something would serve
};

// Errors as Load's, but for what the self-check finds. It loads the whole model for the cost.
absl::StatusOr<DeviceReport> CheckDevice(const LoadOptions& options);

// By a --device flag, as model::CheckLoad: all that LoadFor checks before it reads weights or computes.
// A model on a card takes 0 bytes of this process.
absl::StatusOr<int64_t> CheckLoadFor(absl::string_view device, const model::LoadOptions& options,
                                     double gpu_memory_utilization = 0);

// By a --device flag: the decoder of model/ for kCpu, else Load above.
absl::StatusOr<std::unique_ptr<model::LanguageModel>> LoadFor(absl::string_view device,
                                                              const model::LoadOptions& options,
                                                              double gpu_memory_utilization = 0);

}  // namespace tandem::torch
