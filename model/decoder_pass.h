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
  void Attend(int member, int layer);
  void AttendPart(int member, int layer, const PassLayout::Part& part, int kv_head);
  void Output(int member);

  // The norm of rows of the residual (of all, or of those that are listed), one after the other.
  // All members may read the result.
  const RowBuffer& Norm(int member, const cpu::Buffer& weight, const int* rows, int count);

  // out = x·linear, as `epilogue` says: this member's panels. Columns from out_columns on are not
  // written.
  void Multiply(int member, const PackedLinear& linear, const RowBuffer& x, int rows,
                cpu::Epilogue epilogue, RowBuffer& out, int out_columns);

  // The first k of each row as int8. All members may read the result.
  const cpu::QuantizedRows& Quantize(int member, const RowBuffer& x, int rows, int k);

  // This member's part of 0 to total - 1.
  Range Share(int member, int total) const;

  Decoder& m_;
  Activations& a_;
  const int rows_;
};

}  // namespace tandem::model
