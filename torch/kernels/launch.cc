#include "torch/kernels/launch.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "torch/kernels/judge_prepare.h"

namespace tandem::kernels {
namespace {

// A unit has a kernel of each type.
std::string KernelOf(const char* name, ElementType type) {
  if (type == ElementType::kBfloat16) return absl::StrCat(name, "_bfloat16");
  return absl::StrCat(name, type == ElementType::kFloat16 ? "_float16" : "_float32");
}

// More than any card runs at once of AttendPartials. Those without a partial end at once.
constexpr uint32_t kAttendBlocks = 1024;

uint32_t BlocksOf(uint32_t count, uint32_t threads) { return (count + threads - 1) / threads; }

absl::Status LaunchPartials(const KernelModule& attends, const char* name,
                            const KernelModule& attention, ElementType type,
                            AttentionArguments arguments, void* stream) {
  constexpr uint32_t kThreads = AttentionTraits::kThreads;
  if (arguments.row_count == 0) return absl::OkStatus();
  arguments.blocks = kAttendBlocks;
  TANDEM_RETURN_IF_ERROR(
      attends.Launch(KernelOf(name, type), {arguments.blocks, 1, kThreads}, arguments, stream));
  const uint32_t columns = BlocksOf(arguments.heads * arguments.layer.head_size, kThreads);
  return attention.Launch(KernelOf("tandem_combine_partials", type),
                          {arguments.row_count, columns, kThreads}, arguments, stream);
}

}  // namespace

absl::Status LaunchJudge(const KernelModule& judge, JudgeArguments arguments, uint32_t rows,
                         uint32_t workspace_rows, void* stream) {
  TANDEM_CHECK(workspace_rows > 0);
  constexpr uint32_t kThreads = JudgeTraits::kThreads;
  for (arguments.first_row = 0; arguments.first_row < rows; arguments.first_row += workspace_rows) {
    const uint32_t blocks = std::min(workspace_rows, rows - arguments.first_row);
    const auto launch = [&](const char* kernel, uint32_t columns) {
      return judge.Launch(kernel, {blocks, columns, kThreads}, arguments, stream);
    };
    const uint32_t columns = BlocksOf(arguments.vocabulary_size, JudgeTraits::kColumn);
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_prepare", 1));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_largest", columns));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_weights", columns));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_sums", kSumWays));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_distribution", 1));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_probabilities", columns));
    TANDEM_RETURN_IF_ERROR(launch("tandem_judge_verdict", 1));
  }
  return absl::OkStatus();
}

absl::Status LaunchAttention(const KernelModule& attention, ElementType type,
                             AttentionArguments arguments, void* stream) {
  return LaunchPartials(attention, "tandem_attend", attention, type, arguments, stream);
}

absl::Status LaunchAttentionByMma(const KernelModule& mma, const KernelModule& attention,
                                  ElementType type, AttentionArguments arguments, void* stream) {
  static_assert(MmaAttentionTraits::kThreads == AttentionTraits::kThreads);
  return LaunchPartials(mma, "tandem_attend_mma", attention, type, arguments, stream);
}

absl::Status LaunchAddNorm(const KernelModule& norm_rope, ElementType type,
                           const AddNormArguments& arguments, uint32_t rows, void* stream) {
  return norm_rope.Launch(KernelOf("tandem_add_norm", type), {rows, 1, NormRopeTraits::kThreads},
                          arguments, stream);
}

absl::Status LaunchRopeWrite(const KernelModule& norm_rope, ElementType type,
                             const RopeWriteArguments& arguments, uint32_t rows, void* stream) {
  constexpr uint32_t kThreads = NormRopeTraits::kThreads;
  const uint32_t heads = arguments.heads + 2 * arguments.layer.kv_heads;
  const uint32_t columns = BlocksOf(heads, HeadsOfBlock(kThreads, arguments.layer.head_size));
  return norm_rope.Launch(KernelOf("tandem_rope_write", type), {rows, columns, kThreads}, arguments,
                          stream);
}

absl::Status LaunchGate(const KernelModule& norm_rope, ElementType type,
                        const GateArguments& arguments, uint32_t rows, void* stream) {
  constexpr uint32_t kThreads = NormRopeTraits::kThreads;
  return norm_rope.Launch(KernelOf("tandem_gate", type),
                          {rows, BlocksOf(arguments.size, GateColumn(kThreads)), kThreads},
                          arguments, stream);
}

absl::Status LaunchQuantize(const KernelModule& int8_rows, const QuantizeArguments& arguments,
                            uint32_t rows, void* stream) {
  return int8_rows.Launch("tandem_quantize", {rows, 1, Int8RowsTraits::kThreads}, arguments,
                          stream);
}

absl::Status LaunchScale(const KernelModule& int8_rows, const ScaleArguments& arguments,
                         uint32_t rows, void* stream) {
  constexpr uint32_t kThreads = Int8RowsTraits::kThreads;
  return int8_rows.Launch("tandem_scale", {rows, BlocksOf(arguments.size, kThreads), kThreads},
                          arguments, stream);
}

}  // namespace tandem::kernels
