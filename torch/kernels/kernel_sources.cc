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
       {"tandem_judge_prepare", "tandem_judge_largest", "tandem_judge_weights", "tandem_judge_sums",
        "tandem_judge_distribution", "tandem_judge_probabilities", "tandem_judge_verdict"}},
      {Unit("torch/kernels/attention.cu"),
       {"tandem_attend_float32", "tandem_attend_bfloat16", "tandem_attend_float16",
        "tandem_combine_partials_float32", "tandem_combine_partials_bfloat16",
        "tandem_combine_partials_float16"}},
      {Unit("torch/kernels/attention_mma.cu"),
       {"tandem_attend_mma_bfloat16", "tandem_attend_mma_float16"}},
      {Unit("torch/kernels/int8_rows.cu"), {"tandem_quantize", "tandem_scale"}},
      {Unit("torch/kernels/norm_rope.cu"),
       {"tandem_add_norm_float32", "tandem_add_norm_bfloat16", "tandem_add_norm_float16",
        "tandem_rope_write_float32", "tandem_rope_write_bfloat16", "tandem_rope_write_float16",
        "tandem_gate_float32", "tandem_gate_bfloat16", "tandem_gate_float16"}},
  };
  return *programs;
}

}  // namespace tandem::kernels
