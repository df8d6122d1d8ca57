// One pass of a Decoder, as every member of its thread team runs it: the same phases, each member
// its share of the columns or heads, and a barrier between a phase that writes and one that reads
// all of it.
#include "model/decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "model/cpu/elementwise.h"

namespace tandem::model {

using cpu::Epilogue;

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

  // The first k of each row as int8, by row or by group. All members may read the result.
  const cpu::QuantizedRows& Quantize(int member, const RowBuffer& x, int rows, int k);
  const cpu::GroupedRows& QuantizeGroups(int member, const RowBuffer& x, int rows, int k);
  // Calls quantize(row) for the rows that this member has, of `rows` that all share or it has
  // alone.
  template <class Work>
  void QuantizeShare(int member, int rows, Work quantize);

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

void Decoder::RunMember(int member) {
  Pass pass(*this);
  pass(member);
}

void Decoder::Pass::operator()(int member) {
  // What lies in the file is asked for one layer ahead, by one member.
  if (member == 0) m_.weights_.ReadAhead(m_.weights_.first_in_file());
  Embed(member);
  m_.team_.Barrier(member);
  for (int layer = 0; layer < m_.spec_.layers; ++layer) {
    if (member == 0 && layer >= m_.weights_.first_in_file()) m_.weights_.ReadAhead(layer + 1);
    Layer(member, layer);
  }
  if (!m_.layout_.logits_rows().empty()) Output(member);
}

Decoder::Pass::Range Decoder::Pass::Share(int member, int total) const {
  const int64_t members = m_.team_.active();
  return {static_cast<int>(total * int64_t{member} / members),
          static_cast<int>(total * int64_t{member + 1} / members)};
}

void Decoder::Pass::Embed(int member) {
  const Range share = Share(member, rows_);
  for (int row = share.begin; row < share.end; ++row) {
    m_.weights_.Embed(m_.layout_.token(row), m_.layout_.position(row), a_.residual.row(row));
  }
}

Decoder::Pass::Range Decoder::Pass::Columns(int member, const PackedLinear& linear,
                                            int columns) const {
  const Range panels = Share(member, linear.matrix.panels());
  return {std::min(panels.begin * cpu::kPanelColumns, columns),
          std::min(panels.end * cpu::kPanelColumns, columns)};
}

void Decoder::Pass::Layer(int member, int layer) {
  const DecoderLayer& weights = m_.weights_.layers()[layer];
  Multiply(member, weights.qkv, Norm(member, weights.attention_norm, nullptr, rows_), rows_,
           Epilogue::kStore, a_.qkv, weights.qkv.matrix.columns());
  m_.team_.Barrier(member);
  if (m_.spec_.qk_norm != QkNorm::kNone) {
    NormQueriesAndKeys(member, weights);
    m_.team_.Barrier(member);
  }
  Attend(member, layer);
  m_.team_.Barrier(member);
  if (m_.spec_.parallel_residual) {
    Multiply(member, weights.o, a_.attended, rows_, Epilogue::kStore, a_.branch,
             m_.spec_.hidden_size);
  } else {
    MultiplyAndAdd(member, weights.o, a_.attended, weights.post_attention_norm);
    m_.team_.Barrier(member);
  }
  Mlp(member, weights);
}

void Decoder::Pass::Mlp(int member, const DecoderLayer& weights) {
  const DecoderSpec& spec = m_.spec_;
  const RowBuffer& x = Norm(member, weights.mlp_norm, nullptr, rows_);
  if (HasSwiGlu(spec)) {
    Multiply(member, weights.gate_up, x, rows_, Epilogue::kSwiGlu, a_.inner,
             spec.intermediate_size);
  } else {
    Multiply(member, weights.gate_up, x, rows_, Epilogue::kStore,
             spec.gated_mlp ? a_.gate_up : a_.inner, weights.gate_up.matrix.columns());
    Activate(member, weights.gate_up);
  }
  m_.team_.Barrier(member);
  // Nobody reads the residual any more, from which attention and MLP have both read.
  if (spec.parallel_residual) AddBranch(member, weights.o);
  MultiplyAndAdd(member, weights.down, a_.inner, weights.post_mlp_norm);
  m_.team_.Barrier(member);
}

void Decoder::Pass::MultiplyAndAdd(int member, const PackedLinear& linear, const RowBuffer& x,
                                   const NormWeights& post_norm) {
  const DecoderSpec& spec = m_.spec_;
  // What is parallel came from elsewhere; this is added as it is, if it is not scaled.
  if (!spec.post_norm && spec.residual_scale == 1.0) {
    Multiply(member, linear, x, rows_, Epilogue::kAdd, a_.residual, spec.hidden_size);
    return;
  }
  Multiply(member, linear, x, rows_, Epilogue::kStore, a_.branch, spec.hidden_size);
  if (!spec.post_norm) {
    AddBranch(member, linear);
    return;
  }
  m_.team_.Barrier(member);
  const float scale = static_cast<float>(spec.residual_scale);
  const Range share = Share(member, rows_);
  for (int row = share.begin; row < share.end; ++row) {
    float* branch = a_.branch.row(row);
    float* residual = a_.residual.row(row);
    NormRow(post_norm, branch, branch);
    for (int i = 0; i < spec.hidden_size; ++i) residual[i] += branch[i] * scale;
  }
}

void Decoder::Pass::AddBranch(int member, const PackedLinear& linear) {
  const float scale = static_cast<float>(m_.spec_.residual_scale);
  const Range columns = Columns(member, linear, m_.spec_.hidden_size);
  for (int row = 0; row < rows_; ++row) {
    const float* branch = a_.branch.row(row);
    float* residual = a_.residual.row(row);
    for (int i = columns.begin; i < columns.end; ++i) residual[i] += branch[i] * scale;
  }
}

void Decoder::Pass::Activate(int member, const PackedLinear& gate_up) {
  const int inner = m_.spec_.intermediate_size;
  if (!m_.spec_.gated_mlp) {
    const Range columns = Columns(member, gate_up, inner);
    for (int row = 0; row < rows_; ++row) {
      float* x = a_.inner.row(row) + columns.begin;
      ActivateSome(x, columns.end - columns.begin, x);
    }
    return;
  }
  const Range panels = Share(member, gate_up.matrix.panels());
  for (int row = 0; row < rows_; ++row) {
    for (int panel = panels.begin; panel < panels.end; ++panel) {
      const float* gates = a_.gate_up.row(row) + panel * cpu::kPanelColumns;
      const float* ups = gates + cpu::kLanes;
      float* out = a_.inner.row(row) + panel * cpu::kLanes;
      const int count = std::min(cpu::kLanes, inner - panel * cpu::kLanes);
      ActivateSome(gates, count, out);
      for (int i = 0; i < count; ++i) out[i] *= ups[i];
    }
  }
}

void Decoder::Pass::ActivateSome(const float* x, int n, float* out) {
  switch (m_.spec_.activation) {
    case Activation::kSilu:
      return cpu::Silu(m_.kernels_, x, n, out);
    case Activation::kGelu:
      return cpu::Gelu(m_.kernels_, x, n, out);
    case Activation::kGeluTanh:
      return cpu::GeluTanh(m_.kernels_, x, n, out);
    case Activation::kRelu:
      return cpu::Relu(x, n, out);
  }
}

// In place. A row's heads of q and k are tasks of their own, or its whole q and its whole k.
void Decoder::Pass::NormQueriesAndKeys(int member, const DecoderLayer& weights) {
  const DecoderSpec& spec = m_.spec_;
  const bool width = spec.qk_norm == QkNorm::kWidth;
  const int queries = width ? 1 : spec.heads;
  const int tasks = queries + (width ? 1 : spec.kv_heads);
  const float epsilon = static_cast<float>(spec.norm.epsilon);
  const Range share = Share(member, rows_ * tasks);
  for (int i = share.begin; i < share.end; ++i) {
    const int task = i % tasks;
    float* x = a_.qkv.row(i / tasks);
    if (task < queries) {
      x += task * spec.head_size;
      cpu::RmsNorm(x, weights.q_norm.weight.floats(), spec.q_size() / queries, epsilon, x);
    } else {
      x += spec.q_size() + (task - queries) * spec.head_size;
      cpu::RmsNorm(x, weights.k_norm.weight.floats(), spec.kv_size() / (tasks - queries), epsilon,
                   x);
    }
  }
}

void Decoder::Pass::Rotate(const RopeTable* rope, const float* in, int position, float scale,
                           float* out) const {
  if (rope != nullptr) return rope->Rotate(in, position, scale, out);
  for (int i = 0; i < m_.spec_.head_size; ++i) out[i] = in[i] * scale;
}

void Decoder::Pass::Attend(int member, int layer) {
  const int kv_heads = m_.spec_.kv_heads;
  const std::vector<PassLayout::Part>& parts = m_.layout_.parts();
  const Range share = Share(member, static_cast<int>(parts.size()) * kv_heads);
  for (int i = share.begin; i < share.end; ++i) {
    AttendPart(member, layer, parts[i / kv_heads], i % kv_heads);
  }
}

// A part's rows for one key/value head: its keys and values go to the cache, then the heads that
// share it attend, so many query rows at a time as the scratch takes.
void Decoder::Pass::AttendPart(int member, int layer, const PassLayout::Part& part, int kv_head) {
  const DecoderSpec& spec = m_.spec_;
  const PassLayout& layout = m_.layout_;
  const int size = spec.head_size;
  const int group = spec.heads / spec.kv_heads;
  const int window = spec.window(layer);
  const RopeTable* rope = m_.layer_rope(layer);
  const cpu::HeadPages pages = m_.pool_->Head(layer, kv_head, part.cache->pages());
  cpu::AttentionScratch& scratch = a_.scratch[member];
  for (int row = 0; row < part.rows; ++row) {
    const float* key = a_.qkv.row(part.first_row + row) + spec.q_size() + kv_head * size;
    const float* value = key + spec.kv_size();
    Rotate(rope, key, layout.Position(part, row), 1.0f, scratch.query(0));
    cpu::WriteKeyValue(m_.attention_shape_, pages, part.position + row, scratch.query(0), value);
  }
  const int queries = part.rows * group;
  const int max_rows = scratch.MaxRows(part.position + part.rows);
  for (int first = 0; first < queries; first += max_rows) {
    const int count = std::min(max_rows, queries - first);
    cpu::Sight sights[cpu::kMaxQueryRows];
    for (int i = 0; i < count; ++i) {
      const int row = (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      sights[i] = layout.Sight(part, row);
      if (window != 0) sights[i].first = std::max(0, sights[i].visible - window);
      Rotate(rope, a_.qkv.row(part.first_row + row) + head * size, layout.Position(part, row),
             m_.attention_scale_, scratch.query(i));
    }
    cpu::Attend(m_.kernels_, m_.attention_shape_, pages, sights, count, scratch);
    for (int i = 0; i < count; ++i) {
      const int row = part.first_row + (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      std::memcpy(a_.attended.row(row) + head * size, scratch.out(i), size * sizeof(float));
    }
  }
}

const RowBuffer& Decoder::Pass::Norm(int member, const NormWeights& norm, const int* rows,
                                     int count) {
  if (norm.weight.bytes() == 0) return a_.residual;
  const bool shared = count > Activations::kPrivateRows;
  RowBuffer& out = shared ? a_.normed : a_.normed_of_member[member];
  const Range share = shared ? Share(member, count) : Range{0, count};
  for (int i = share.begin; i < share.end; ++i) {
    NormRow(norm, a_.residual.row(rows == nullptr ? i : rows[i]), out.row(i));
  }
  if (shared) m_.team_.Barrier(member);
  return out;
}

void Decoder::Pass::NormRow(const NormWeights& norm, const float* x, float* out) {
  const int size = m_.spec_.hidden_size;
  const float epsilon = static_cast<float>(m_.spec_.norm.epsilon);
  if (m_.spec_.norm.kind == NormSpec::Kind::kRms) {
    m_.kernels_.rms_norm(x, norm.weight.floats(), size, cpu::RoundUpToPanel(size), epsilon, out);
  } else {
    cpu::LayerNorm(x, norm.weight.floats(), norm.bias.floats(), size, epsilon, out);
  }
}

void Decoder::Pass::Multiply(int member, const PackedLinear& linear, const RowBuffer& x, int rows,
                             Epilogue epilogue, RowBuffer& out, int out_columns) {
  const Range share = Share(member, linear.matrix.panels());
  if (linear.matrix.type() == cpu::WeightType::kInt8) {
    linear.matrix.MultiplyInt8(m_.kernels_, Quantize(member, x, rows, linear.matrix.k()), rows,
                               share.begin, share.end - share.begin, epilogue, linear.bias_data(),
                               out.row(0), out.stride(), out_columns);
    return;
  }
  if (cpu::IsGrouped(linear.matrix.type())) {
    linear.matrix.MultiplyGrouped(m_.kernels_, QuantizeGroups(member, x, rows, linear.matrix.k()),
                                  rows, share.begin, share.end - share.begin, epilogue,
                                  linear.bias_data(), out.row(0), out.stride(), out_columns);
    return;
  }
  linear.matrix.Multiply(m_.kernels_, x.row(0), x.stride(), rows, share.begin,
                         share.end - share.begin, epilogue, linear.bias_data(), out.row(0),
                         out.stride(), out_columns);
}

const cpu::QuantizedRows& Decoder::Pass::Quantize(int member, const RowBuffer& x, int rows, int k) {
  cpu::QuantizedRows& out =
      rows > Activations::kPrivateRows ? a_.quantized : a_.quantized_of_member[member];
  QuantizeShare(member, rows, [&](int row) {
    m_.kernels_.int8->quantize(x.row(row), k, out.row(row), out.scales() + row, out.sums() + row);
  });
  return out;
}

const cpu::GroupedRows& Decoder::Pass::QuantizeGroups(int member, const RowBuffer& x, int rows,
                                                      int k) {
  cpu::GroupedRows& out =
      rows > Activations::kPrivateRows ? a_.grouped : a_.grouped_of_member[member];
  QuantizeShare(member, rows,
                [&](int row) { out.Quantize(*m_.kernels_.grouped, x.row(row), k, row, rows); });
  return out;
}

template <class Work>
void Decoder::Pass::QuantizeShare(int member, int rows, Work quantize) {
  const bool shared = rows > Activations::kPrivateRows;
  if (shared) m_.team_.Barrier(member);  // the product before may still read it
  const Range share = shared ? Share(member, rows) : Range{0, rows};
  for (int row = share.begin; row < share.end; ++row) quantize(row);
  if (shared) m_.team_.Barrier(member);
}

void Decoder::Pass::Output(int member) {
  const std::vector<int>& rows = m_.layout_.logits_rows();
  const int count = static_cast<int>(rows.size());
  const PackedLinear& output = m_.weights_.output();
  const int size = m_.spec_.output_size();
  Multiply(member, output, Norm(member, m_.weights_.final_norm(), rows.data(), count), count,
           Epilogue::kStore, a_.logits, size);
  if (m_.spec_.logit_scale != 1.0) {
    const float scale = static_cast<float>(m_.spec_.logit_scale);
    const Range columns = Columns(member, output, size);
    for (int row = 0; row < count; ++row) {
      float* logits = a_.logits.row(row);
      for (int i = columns.begin; i < columns.end; ++i) logits[i] *= scale;
    }
  }
  if (m_.weights_.output_tokens().empty()) return;
  m_.team_.Barrier(member);
  const Range share = Share(member, count);
  for (int row = share.begin; row < share.end; ++row) {
    SpreadLogits(m_.weights_.output_tokens(), m_.spec_.vocabulary_size, a_.logits.row(row));
  }
}

// In place: row j of the output is of token tokens[j], which is at least j, so what is moved last
// to first is never written before it was read.
void Decoder::Pass::SpreadLogits(const std::vector<uint32_t>& tokens, int vocabulary_size,
                                 float* logits) {
  float* end = logits + vocabulary_size;
  for (size_t j = tokens.size(); j-- > 0;) {
    float* const place = logits + tokens[j];
    const float logit = logits[j];
    std::fill(place + 1, end, -std::numeric_limits<float>::infinity());
    *place = logit;
    end = place;
  }
  std::fill(logits, end, -std::numeric_limits<float>::infinity());
}

}  // namespace tandem::model
