// Launches of the kernels of this folder: which ones, in which order, with which grids. All
// pointers in the arguments are the device's. Calls return at once; what they launch runs in order
// on `stream` (a CUstream).
//
// Thread safety: as KernelModule.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "torch/kernels/attention_mma.h"
#include "torch/kernels/cuda_driver.h"
#include "torch/kernels/int8_rows.h"
#include "torch/kernels/judge_types.h"
#include "torch/kernels/norm_rope.h"

namespace tandem::kernels {

// The judge, over `rows` rows. The workspace has room for workspace_rows of them, at least 1: a
// pass with more is judged in several turns. `judge`: judge.cu.
absl::Status LaunchJudge(const KernelModule& judge, JudgeArguments arguments, uint32_t rows,
                         uint32_t workspace_rows, void* stream);

// Attention over arguments.row_count rows; sets arguments.blocks. `type`: of keys, values and the
// result. `attention`: attention.cu.
absl::Status LaunchAttention(const KernelModule& attention, ElementType type,
                             AttentionArguments arguments, void* stream);

// The same with partials on tensor cores; `type` has 16 bits. `mma`: attention_mma.cu.
absl::Status LaunchAttentionByMma(const KernelModule& mma, const KernelModule& attention,
                                  ElementType type, AttentionArguments arguments, void* stream);

// `type`: of products, keys, values and results. `norm_rope`: norm_rope.cu.
absl::Status LaunchAddNorm(const KernelModule& norm_rope, ElementType type,
                           const AddNormArguments& arguments, uint32_t rows, void* stream);
absl::Status LaunchRopeWrite(const KernelModule& norm_rope, ElementType type,
                             const RopeWriteArguments& arguments, uint32_t rows, void* stream);
absl::Status LaunchGate(const KernelModule& norm_rope, ElementType type,
                        const GateArguments& arguments, uint32_t rows, void* stream);

// `int8_rows`: int8_rows.cu.
absl::Status LaunchQuantize(const KernelModule& int8_rows, const QuantizeArguments& arguments,
                            uint32_t rows, void* stream);
absl::Status LaunchScale(const KernelModule& int8_rows, const ScaleArguments& arguments,
                         uint32_t rows, void* stream);

}  // namespace tandem::kernels
