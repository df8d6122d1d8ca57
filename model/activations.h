// The numbers of a pass between its embeddings and its logits.
#pragma once

#include <cstddef>
#include <vector>

#include "model/cpu/attention.h"
#include "model/cpu/buffer.h"
#include "model/cpu/grouped.h"
#include "model/cpu/int8.h"
#include "model/spec/decoder_spec.h"

namespace tandem::model {

// Rows of float32, zero at first, `stride` floats from one row to the next.
class RowBuffer {
 public:
  RowBuffer(int rows, int stride)
      : stride_(stride), data_(cpu::FloatBuffer(static_cast<size_t>(rows) * stride)) {}

  int stride() const { return stride_; }
  float* row(int i) { return data_.floats() + static_cast<size_t>(i) * stride_; }
  const float* row(int i) const { return data_.floats() + static_cast<size_t>(i) * stride_; }

 private:
  int stride_;
  cpu::Buffer data_;
};

// Whether attention and MLP add what they give to the residual as it is, in the kernel.
bool AddsAtOnce(const DecoderSpec& spec);

// Whether the kernel of the MLP's first half computes its activation (Epilogue::kSwiGlu).
bool HasSwiGlu(const DecoderSpec& spec);

// Made once for the largest pass. A row of fewer columns than its stride has zeros at its end,
// which nothing writes: norms read whole vectors.
struct Activations {
  // A pass of up to so many rows is normed by every member for itself: cheaper than a barrier.
  static constexpr int kPrivateRows = 16;

  // `members`: of the thread team that runs the pass.
  // `int8`, `grouped`: some products take their rows as int8 by row, or by group.
  Activations(const DecoderSpec& spec, int max_rows, int members, bool int8, bool grouped);

  RowBuffer residual;                       // [max_rows, hidden_size]
  RowBuffer normed;                         // [max_rows, hidden_size]
  std::vector<RowBuffer> normed_of_member;  // a member's: [kPrivateRows, hidden_size]
  RowBuffer qkv;                            // [max_rows, q_size + 2 · kv_size]
  RowBuffer attended;                       // [max_rows, q_size]
  // What a linear layer gives before it is added to the residual: [max_rows, hidden_size]. Of a
  // model that adds at once, no rows.
  RowBuffer branch;
  // Gates and ups as PackGateUp lays them. Of an MLP whose activation the kernels compute, or that
  // has no gate, no rows.
  RowBuffer gate_up;
  RowBuffer inner;                             // [max_rows, intermediate_size]
  RowBuffer logits;                            // [max_rows, vocabulary_size], without a gap
  std::vector<cpu::AttentionScratch> scratch;  // a member's
  // The rows of the product that is being computed, of int8: [max_rows, its inputs].
  cpu::QuantizedRows quantized;
  std::vector<cpu::QuantizedRows> quantized_of_member;  // a member's: [kPrivateRows, …]
  // The same by group.
  cpu::GroupedRows grouped;
  std::vector<cpu::GroupedRows> grouped_of_member;
};

}  // namespace tandem::model
