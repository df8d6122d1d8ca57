// From a kernel's source in this program to a kernel on the card that is here.
//
// Thread safety: as CudaDriver.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "torch/kernels/cuda_driver.h"

namespace tandem::kernels {

// `unit`: of KernelPrograms(), such as "torch/kernels/judge.cu". From the cache of cubins where it
// is there, else compiled, which takes seconds. The driver's context is current.
//
// Errors of NvrtcCompiler, of CudaDriver. NOT_FOUND: there is no such unit.
absl::StatusOr<std::unique_ptr<KernelModule>> LoadKernels(const CudaDriver& driver,
                                                          absl::string_view unit);

}  // namespace tandem::kernels
