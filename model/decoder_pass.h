// One pass of a Decoder, as every member of its thread team runs it: the same phases, each member
// its share of the columns or heads, and a barrier between a phase that writes and one that reads
// all of it.
#pragma once

#include "model/decoder.h"

namespace tandem::model {

// Thread safety: the members of the team call it together, each with its own number.
class Decoder::Pass {
 public:
  explicit Pass(Decoder& model) : m_(model), a_(model.activations_), rows_(model.layout_.rows()) {}

  void operator()(int member);

 private:
  struct Range {
    int begin;
    int end;
  };

  void Embed(int member);
  void Layer(int member, int layer);
  void NormQueriesAndKeys(int member, const DecoderLayer& weights);
  void Attend(int member, int layer);
  void AttendPart(int member, int layer, const PassLayout::Part& part, int kv_head);
  void Mlp(int member, const DecoderLayer& weights);
  void Output(int member);
  // The logits of `tokens`, which stand first in the row, to their places; -infinity to all others.
  static void SpreadLogits(const std::vector<uint32_t>& tokens, int vocabulary_size, float* logits);

  // Norms of rows of the residual (of all, or of those that are listed), one after the other. All
  // members may read the result. Where the model has no such norm, the residual itself.
  const RowBuffer& Norm(int member, const NormWeights& norm, const int* rows, int count);
  void NormRow(const NormWeights& norm, const float* x, float* out);

  // out = x·linear, as `epilogue` says: this member's panels. Columns from out_columns on are not
  // written.
  void Multiply(int member, const PackedLinear& linear, const RowBuffer& x, int rows,
                cpu::Epilogue epilogue, RowBuffer& out, int out_columns);

  // The first k of each row as int8. All members may read the result.
  const cpu::QuantizedRows& Quantize(int member, const RowBuffer& x, int rows, int k);

  // The residual gets what attention or the MLP gives: x·linear, normed and scaled as the model
  // does. A barrier must follow.
  void MultiplyAndAdd(int member, const PackedLinear& linear, const RowBuffer& x,
                      const NormWeights& post_norm);
  // residual += branch · residual_scale, in the columns that this member has of a matrix to the
  // hidden size.
  void AddBranch(int member, const PackedLinear& linear);

  // The MLP's activation, of the columns that this member has multiplied; it writes a_.inner.
  void Activate(int member, const PackedLinear& gate_up);
  void ActivateSome(const float* x, int n, float* out);

  // q or k of a head, rotated by `position` where `rope` is not null, times `scale`.
  void Rotate(const RopeTable* rope, const float* in, int position, float scale, float* out) const;

  // This member's part of 0 to total - 1.
  Range Share(int member, int total) const;

  // The columns that this member has of a matrix's output, at most `columns` of them.
  Range Columns(int member, const PackedLinear& linear, int columns) const;

  Decoder& m_;
  Activations& a_;
  const int rows_;
};

}  // namespace tandem::model
