#include "model/decoder_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::model {

using cpu::Epilogue;

void Decoder::Pass::operator()(int member) {
  Embed(member);
  m_.team_.Barrier(member);
  for (int layer = 0; layer < m_.spec_.layers; ++layer) Layer(member, layer);
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
    m_.weights_.Embed(m_.layout_.token(row), a_.residual.row(row));
  }
}

void Decoder::Pass::Layer(int member, int layer) {
  const DecoderLayer& weights = m_.weights_.layers()[layer];
  const DecoderSpec& spec = m_.spec_;
  Multiply(member, weights.qkv, Norm(member, weights.attention_norm, nullptr, rows_), rows_,
           Epilogue::kStore, a_.qkv, weights.qkv.matrix.columns());
  m_.team_.Barrier(member);
  Attend(member, layer);
  m_.team_.Barrier(member);
  Multiply(member, weights.o, a_.attended, rows_, Epilogue::kAdd, a_.residual, spec.hidden_size);
  m_.team_.Barrier(member);
  Multiply(member, weights.gate_up, Norm(member, weights.mlp_norm, nullptr, rows_), rows_,
           Epilogue::kSwiGlu, a_.inner, spec.intermediate_size);
  m_.team_.Barrier(member);
  Multiply(member, weights.down, a_.inner, rows_, Epilogue::kAdd, a_.residual, spec.hidden_size);
  m_.team_.Barrier(member);
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
// share it attend, eight query rows at a time.
void Decoder::Pass::AttendPart(int member, int layer, const PassLayout::Part& part, int kv_head) {
  const DecoderSpec& spec = m_.spec_;
  const PassLayout& layout = m_.layout_;
  const int size = spec.head_size;
  const int group = spec.heads / spec.kv_heads;
  const cpu::HeadPages pages = m_.pool_->Head(layer, kv_head, part.cache->pages());
  cpu::AttentionScratch& scratch = a_.scratch[member];
  for (int row = 0; row < part.rows; ++row) {
    const float* key = a_.qkv.row(part.first_row + row) + spec.q_size() + kv_head * size;
    const float* value = key + spec.kv_size();
    m_.rope_.Rotate(key, layout.Position(part, row), 1.0f, scratch.query(0));
    cpu::WriteKeyValue(m_.attention_shape_, pages, part.position + row, scratch.query(0), value);
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  const int queries = part.rows * group;
  for (int first = 0; first < queries; first += cpu::kMaxQueryRows) {
    const int count = std::min(cpu::kMaxQueryRows, queries - first);
    cpu::Sight sights[cpu::kMaxQueryRows];
    for (int i = 0; i < count; ++i) {
      const int row = (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      sights[i] = layout.Sight(part, row);
      m_.rope_.Rotate(a_.qkv.row(part.first_row + row) + head * size, layout.Position(part, row),
                      scale, scratch.query(i));
    }
    cpu::Attend(m_.kernels_, m_.attention_shape_, pages, sights, count, scratch);
    for (int i = 0; i < count; ++i) {
      const int row = part.first_row + (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      std::memcpy(a_.attended.row(row) + head * size, scratch.out(i), size * sizeof(float));
    }
  }
}

const RowBuffer& Decoder::Pass::Norm(int member, const cpu::Buffer& weight, const int* rows,
                                     int count) {
  const bool shared = count > Activations::kPrivateRows;
  RowBuffer& out = shared ? a_.normed : a_.normed_of_member[member];
  const Range share = shared ? Share(member, count) : Range{0, count};
  const int size = m_.spec_.hidden_size;
  for (int i = share.begin; i < share.end; ++i) {
    const int row = rows == nullptr ? i : rows[i];
    m_.kernels_.rms_norm(a_.residual.row(row), weight.floats(), size, cpu::RoundUpToPanel(size),
                         static_cast<float>(m_.spec_.norm.epsilon), out.row(i));
  }
  if (shared) m_.team_.Barrier(member);
  return out;
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
  linear.matrix.Multiply(m_.kernels_, x.row(0), x.stride(), rows, share.begin,
                         share.end - share.begin, epilogue, linear.bias_data(), out.row(0),
                         out.stride(), out_columns);
}

const cpu::QuantizedRows& Decoder::Pass::Quantize(int member, const RowBuffer& x, int rows, int k) {
  const bool shared = rows > Activations::kPrivateRows;
  cpu::QuantizedRows& out = shared ? a_.quantized : a_.quantized_of_member[member];
  const Range share = shared ? Share(member, rows) : Range{0, rows};
  for (int row = share.begin; row < share.end; ++row) {
    m_.kernels_.int8->quantize(x.row(row), k, out.row(row), out.scales() + row, out.sums() + row);
  }
  if (shared) m_.team_.Barrier(member);
  return out;
}

void Decoder::Pass::Output(int member) {
  const std::vector<int>& rows = m_.layout_.logits_rows();
  const int count = static_cast<int>(rows.size());
  Multiply(member, m_.weights_.output(), Norm(member, m_.weights_.final_norm(), rows.data(), count),
           count, Epilogue::kStore, a_.logits, m_.spec_.vocabulary_size);
}

}  // namespace tandem::model
