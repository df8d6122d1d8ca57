#include "model/activations.h"

#include <algorithm>
#include <cstdint>

#include "model/cpu/kernels.h"

namespace tandem::model {
namespace {

// Floats between rows of activations: three cache lines more than whole panels, so that rows of a
// size that is a power of two do not all fall on the same cache sets (8 rows of 4096: 2.5 instead
// of 3.2 ms).
int RowStride(int columns) { return cpu::RoundUpToPanel(columns) + 3 * cpu::kLanes; }

int GateUpColumns(const DecoderSpec& spec) {
  return (spec.intermediate_size + cpu::kLanes - 1) / cpu::kLanes * cpu::kPanelColumns;
}

}  // namespace

bool AddsAtOnce(const DecoderSpec& spec) {
  return !spec.post_norm && !spec.parallel_residual && spec.residual_scale == 1.0;
}

bool HasSwiGlu(const DecoderSpec& spec) {
  return spec.gated_mlp && spec.activation == Activation::kSilu;
}

Activations::Activations(const DecoderSpec& spec, int max_rows, int members, bool int8,
                         bool grouped)
    : residual(max_rows, RowStride(spec.hidden_size)),
      normed(max_rows, RowStride(spec.hidden_size)),
      qkv(max_rows, RowStride(spec.q_size() + 2 * spec.kv_size())),
      attended(max_rows, RowStride(spec.q_size())),
      branch(AddsAtOnce(spec) ? 0 : max_rows, RowStride(spec.hidden_size)),
      gate_up(spec.gated_mlp && !HasSwiGlu(spec) ? max_rows : 0, RowStride(GateUpColumns(spec))),
      inner(max_rows, RowStride(spec.intermediate_size)),
      logits(max_rows, spec.vocabulary_size) {
  for (int member = 0; member < members; ++member) {
    normed_of_member.emplace_back(kPrivateRows, RowStride(spec.hidden_size));
    scratch.emplace_back(cpu::AttentionShape{spec.head_size}, spec.context_length);
  }
  const int inputs = static_cast<int>(
      std::max<int64_t>({spec.hidden_size, spec.q_size(), spec.intermediate_size}));
  if (int8) quantized = cpu::QuantizedRows(max_rows, inputs);
  if (grouped) this->grouped = cpu::GroupedRows(max_rows, inputs);
  for (int member = 0; member < members; ++member) {
    if (int8) quantized_of_member.emplace_back(kPrivateRows, inputs);
    if (grouped) grouped_of_member.emplace_back(kPrivateRows, inputs);
  }
}

}  // namespace tandem::model
