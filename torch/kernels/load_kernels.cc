#include "torch/kernels/load_kernels.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "torch/kernels/cubin_cache.h"
#include "torch/kernels/kernel_sources.h"
#include "torch/kernels/nvrtc_compiler.h"

namespace tandem::kernels {

absl::StatusOr<std::unique_ptr<KernelModule>> LoadKernels(const CudaDriver& driver,
                                                          absl::string_view unit) {
  for (const KernelProgram& program : KernelPrograms()) {
    if (program.source.name != unit) continue;
    TANDEM_ASSIGN_OR_RETURN(const int architecture, driver.Architecture());
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<NvrtcCompiler> compiler, NvrtcCompiler::Load());
    const CubinCache cache(CubinCache::DefaultFolder());
    TANDEM_ASSIGN_OR_RETURN(const std::string cubin,
                            CompileCached(*compiler, cache, program, architecture));
    return driver.LoadModule(cubin, program.kernels);
  }
  return absl::NotFoundError(absl::StrCat("there are no kernels ", unit));
}

}  // namespace tandem::kernels
