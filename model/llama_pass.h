// One step of a Llama, as every member of its thread team runs it: the same phases, each member its
// share of the columns or heads, a barrier between a phase that writes and one that reads all of
// it.
#pragma once

#include "model/llama.h"

namespace tandem::model {

class Llama::Pass {
 public:
  // Up to as many rows are normed by every member for itself: cheaper than a barrier.
  static constexpr int kPrivateRows = 16;

  explicit Pass(Llama& model) : m_(model), rows_(static_cast<int>(model.tokens_.size())) {}

  void operator()(int member);

 private:
  void Embed(int member);
  void Layer(int member, int layer);
  void Attend(int member, int layer);
  void AttendPart(int member, int layer, const Part& part, int kv_head);
  void Output(int member);

  // Of a part's row.
  int Position(const Part& part, int row) const;
  cpu::Sight Sight(const Part& part, int row) const;

  // Rotates a head's [head_size] elements by a position, times `scale`.
  void Rotate(const float* in, int position, float scale, float* out) const;

  // RMS norm of residual rows (all, or those listed) in [rows, hidden_stride]; all members may read
  // the result.
  const float* Norm(int member, const cpu::Buffer& weight, const int* rows, int count);

  // out = x·linear, this member's panels.
  void Multiply(int member, const PackedLinear& linear, const float* x, int x_stride, int rows,
                cpu::Epilogue epilogue, cpu::Buffer& out, int out_stride, int out_columns);

  Range Share(int member, int total) const;

  Llama& m_;
  const int rows_;
};

}  // namespace tandem::model
