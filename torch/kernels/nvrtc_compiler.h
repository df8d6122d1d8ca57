// Compiles kernels to cubins with NVRTC, which needs neither a card nor a driver. NVRTC is loaded
// when it is asked for: nothing here is linked to CUDA.
//
// Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "torch/kernels/kernel_sources.h"

namespace tandem::kernels {

struct NvrtcFunctions;

class NvrtcCompiler {
 public:
  // `library`: path or name of libnvrtc; empty: libnvrtc.so.13, .12, or without a number, where the
  // loader finds them. FAILED_PRECONDITION: there is none; the message says how to get it.
  static absl::StatusOr<std::unique_ptr<NvrtcCompiler>> Load(const std::string& library = "");
  ~NvrtcCompiler();

  // Of NVRTC: "13.0". Another version may make other cubins of one source.
  const std::string& version() const { return version_; }

  // The options that every kernel is compiled with. They keep the bits of the host: products and
  // sums are not fused, denormal numbers are not flushed, divisions and roots are exact.
  static std::vector<std::string> Options(int architecture);

  // A cubin for cards of compute capability `architecture` (90 is 9.0). INVALID_ARGUMENT: the
  // source is wrong, or this NVRTC does not know the architecture; the message has NVRTC's own.
  absl::StatusOr<std::string> Compile(const KernelProgram& program, int architecture);

 private:
  NvrtcCompiler(std::unique_ptr<NvrtcFunctions> functions, std::string version);

  const std::unique_ptr<NvrtcFunctions> functions_;
  const std::string version_;
};

}  // namespace tandem::kernels
