#include "torch/kernels/kernel_sources.h"

#include "common/base/check.h"
#include "torch/kernels/embedded_sources.h"

namespace tandem::kernels {
namespace {

SourceFile Unit(const char* name) {
  for (const SourceFile& file : kEmbeddedUnits) {
    if (std::string(file.name) == name) return file;
  }
  TANDEM_CHECK(false) << name << " is not embedded";
  return {};
}

}  // namespace

absl::Span<const SourceFile> KernelHeaders() { return kEmbeddedHeaders; }

const std::vector<KernelProgram>& KernelPrograms() {
  static const auto* const programs = new std::vector<KernelProgram>{
      {Unit("torch/kernels/judge.cu"),
       {"tandem_judge_prepare", "tandem_judge_weights", "tandem_judge_distribution",
        "tandem_judge_verdict"}},
  };
  return *programs;
}

}  // namespace tandem::kernels
