// The entry point of libtandem_torch.so.
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "torch/aten/cuda.h"
#include "torch/aten/decoder_step.h"
#include "torch/aten/int8.h"
#include "torch/library/interface.h"

namespace tandem::torch {
namespace {

// Of a processor: products of so few rows cost little, and prompts have more of them. Of a CUDA
// device: near the point where arithmetic takes as long as reading the weights.
constexpr int kCpuTile = 32;
constexpr int kCudaTile = 192;

absl::Status CheckOptions(const StepOptions& options) {
  if (options.device != "cpu" && options.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("device is \"", options.device, "\"; there are cpu and cuda"));
  }
  if (options.tile < 0 || options.tile % 32 != 0 || options.tile > 4096) {
    return absl::InvalidArgumentError(
        absl::StrCat("tile is ", options.tile, "; a multiple of 32 up to 4096, or 0"));
  }
  if (options.attention != Attention::kGather && options.kernels == nullptr) {
    return absl::InvalidArgumentError("attention by spans or mma needs its kernels");
  }
  const bool bits16 =
      options.type == ComputeType::kBfloat16 || options.type == ComputeType::kFloat16;
  if (options.attention == Attention::kMma && !bits16) {
    return absl::InvalidArgumentError("attention by mma is of bf16 or fp16");
  }
  if (options.graphs && options.attention == Attention::kGather) {
    return absl::InvalidArgumentError("no graph has attention by gather, which looks at each pass");
  }
  return absl::OkStatus();
}

at::Device DeviceOf(const StepOptions& options) {
  if (options.device == "cpu") return at::Device(at::kCPU);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.card));
}

// What `make` gives; what LibTorch throws there as a status.
template <typename Make>
auto Made(Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const c10::Error& error) {
    // What a device refuses at this point is room.
    return absl::ResourceExhaustedError(
        absl::StrCat("LibTorch could not load the model: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("LibTorch could not load the model: ", error.what()));
  }
}

absl::StatusOr<std::shared_ptr<const StepWeights>> LoadWeights(
    const StepOptions& options, const model::DecoderSpec& spec,
    const model::DecoderTensors& tensors) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  if (options.device == "cuda") {
    if (absl::Status status = StartCuda(options.card); !status.ok()) return status;
  }
  return Made([&]() -> absl::StatusOr<std::shared_ptr<const StepWeights>> {
    return std::make_shared<const LoadedWeights>(options, spec, tensors, DeviceOf(options));
  });
}

absl::StatusOr<std::unique_ptr<Step>> MakeStep(const StepOptions& asked,
                                               const model::DecoderSpec& spec,
                                               std::shared_ptr<const StepWeights> weights) {
  if (absl::Status status = CheckOptions(asked); !status.ok()) return status;
  StepOptions options = asked;
  const bool cuda = options.device == "cuda";
  if (options.tile == 0) options.tile = cuda ? kCudaTile : kCpuTile;
  std::string name =
      cuda ? absl::StrCat("cuda:", options.card) : absl::StrCat("cpu ", at::get_cpu_capability());
  const at::Device device = DeviceOf(options);
  return Made([&]() -> absl::StatusOr<std::unique_ptr<Step>> {
    if (options.type == ComputeType::kInt8 && !Int8SumsAreExact(options.tile, device)) {
      return absl::FailedPreconditionError(
          absl::StrCat("int8: LibTorch does not sum whole numbers exactly on ", name,
                       "\n  hint: --device=cpu does on every processor"));
    }
    auto step = std::make_unique<DecoderStep>(
        options, spec, std::static_pointer_cast<const LoadedWeights>(std::move(weights)), device,
        std::move(name));
    if (absl::Status status = step->Prepare(); !status.ok()) return status;
    return step;
  });
}

}  // namespace
}  // namespace tandem::torch

extern "C" __attribute__((visibility("default"))) const tandem::torch::Library*
tandem_torch_library() {
  static const tandem::torch::Library library = {
      tandem::torch::kInterfaceVersion, tandem::torch::BuildText(), TORCH_VERSION,
      tandem::torch::LoadWeights, tandem::torch::MakeStep};
  return &library;
}
