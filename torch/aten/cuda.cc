#include "torch/aten/cuda.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::torch {
namespace {

// Where LibTorch's word of warning is about what we ask for on purpose.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

}  // namespace

absl::Status StartCuda(int card) {
  // Before the first handle. One small workspace each leaves cuBLAS no room to split sums.
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", /*overwrite=*/1);
  setenv("CUBLASLT_WORKSPACE_SIZE", "1", /*overwrite=*/1);
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("LibTorch's CUDA libraries are not whole: ", dlerror(),
                     "\n  hint: `pip install --target=DIR torch==" TORCH_VERSION
                     "` fetches them with all that they require; build libtandem_torch.so with "
                     "-DTANDEM_TORCH_DIR=DIR/torch (docs/gpu.md)"));
  }
  const int cards = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().getNumGPUs() : 0;
  if (cards == 0) {
    return absl::FailedPreconditionError(
        "LibTorch finds no CUDA device: there is no NVIDIA card, or its driver is missing or too "
        "old for CUDA 13\n  hint: `nvidia-smi` shows card and driver (docs/gpu.md)");
  }
  if (card >= cards) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there is no CUDA device ", card, ": this process sees ", cards, ", of the numbers 0 to ",
        cards - 1,
        "\n  hint: `nvidia-smi -L` lists them; CUDA_VISIBLE_DEVICES, and of a MIG card "
        "the slice that the container was given, decide which are seen"));
  }
  at::Context& context = at::globalContext();
  context.setAllowBF16ReductionCuBLAS(false, /*allow_splitk=*/false);
  context.setAllowFP16ReductionCuBLAS(false, /*allow_splitk=*/false);
  {
    Silence silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    context.setBlasPreferredBackend(at::BlasBackend::Cublaslt);
  }
  context.setAllowTF32CuBLAS(false);
  return absl::OkStatus();
}

}  // namespace tandem::torch
