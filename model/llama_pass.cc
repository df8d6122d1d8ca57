#include "model/llama_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::model {

using cpu::Epilogue;

void Llama::Pass::operator()(int member) {
  Embed(member);
  m_.team_.Barrier(member);
  for (int layer = 0; layer < m_.config_.layers; ++layer) Layer(member, layer);
  if (!m_.logits_rows_.empty()) Output(member);
}

Llama::Range Llama::Pass::Share(int member, int total) const {
  const int64_t members = m_.team_.active();
  return {static_cast<int>(total * int64_t{member} / members),
          static_cast<int>(total * int64_t{member + 1} / members)};
}

void Llama::Pass::Embed(int member) {
  const Range share = Share(member, rows_);
  for (int row = share.begin; row < share.end; ++row) {
    m_.weights_.Embed(m_.tokens_[row],
                      m_.residual_.floats() + static_cast<size_t>(row) * m_.hidden_stride_);
  }
}

void Llama::Pass::Layer(int member, int layer) {
  const LlamaLayer& weights = m_.weights_.layers()[layer];
  const LlamaConfig& config = m_.config_;
  const float* normed = Norm(member, weights.attention_norm, nullptr, rows_);
  Multiply(member, weights.qkv, normed, m_.hidden_stride_, rows_, Epilogue::kStore, m_.qkv_,
           m_.qkv_stride_, weights.qkv.matrix.columns());
  m_.team_.Barrier(member);
  Attend(member, layer);
  m_.team_.Barrier(member);
  Multiply(member, weights.o, m_.attended_.floats(), m_.attended_stride_, rows_, Epilogue::kAdd,
           m_.residual_, m_.hidden_stride_, config.hidden_size);
  m_.team_.Barrier(member);
  normed = Norm(member, weights.feed_forward_norm, nullptr, rows_);
  Multiply(member, weights.gate_up, normed, m_.hidden_stride_, rows_, Epilogue::kSwiGlu, m_.inner_,
           m_.inner_stride_, config.feed_forward_size);
  m_.team_.Barrier(member);
  Multiply(member, weights.down, m_.inner_.floats(), m_.inner_stride_, rows_, Epilogue::kAdd,
           m_.residual_, m_.hidden_stride_, config.hidden_size);
  m_.team_.Barrier(member);
}

void Llama::Pass::Attend(int member, int layer) {
  const int kv_heads = m_.config_.kv_heads;
  const Range share = Share(member, static_cast<int>(m_.parts_.size()) * kv_heads);
  for (int i = share.begin; i < share.end; ++i) {
    AttendPart(member, layer, m_.parts_[i / kv_heads], i % kv_heads);
  }
}

void Llama::Pass::Rotate(const float* in, int position, float scale, float* out) const {
  const int half = m_.config_.head_size / 2;
  const float* cosine = m_.cosines_.data() + static_cast<size_t>(position) * half;
  const float* sine = m_.sines_.data() + static_cast<size_t>(position) * half;
  for (int i = 0; i < half; ++i) {
    const float first = in[i];
    const float second = in[i + half];
    out[i] = (first * cosine[i] - second * sine[i]) * scale;
    out[i + half] = (second * cosine[i] + first * sine[i]) * scale;
  }
}

int Llama::Pass::Position(const Part& part, int row) const {
  return part.parents.empty() ? part.position + row : m_.tree_rows_[part.first_row + row].position;
}

cpu::Sight Llama::Pass::Sight(const Part& part, int row) const {
  if (part.parents.empty()) return {part.position + row + 1, part.position + row + 1, nullptr};
  const TreeRow& at = m_.tree_rows_[part.first_row + row];
  return {at.position + 1, at.straight, m_.tree_slots_.data() + at.first_rest};
}

// A part's rows for one key/value head: its keys and values go to the cache, then the heads that
// share it attend, eight query rows at a time.
void Llama::Pass::AttendPart(int member, int layer, const Part& part, int kv_head) {
  const LlamaConfig& config = m_.config_;
  const int size = config.head_size;
  const int group = config.heads / config.kv_heads;
  const cpu::HeadSpans spans = m_.pool_->Head(layer, kv_head, part.cache->spans());
  cpu::AttentionScratch& scratch = m_.scratch_[member];
  const float* qkv = m_.qkv_.floats() + static_cast<size_t>(part.first_row) * m_.qkv_stride_;
  for (int row = 0; row < part.rows; ++row) {
    const float* key =
        qkv + static_cast<size_t>(row) * m_.qkv_stride_ + (config.heads + kv_head) * size;
    Rotate(key, Position(part, row), 1.0f, scratch.query(0));
    cpu::WriteKeyValue(m_.attention_shape_, spans, part.position + row, scratch.query(0),
                       key + config.kv_heads * size);
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  const int queries = part.rows * group;
  for (int first = 0; first < queries; first += cpu::kMaxQueryRows) {
    const int count = std::min(cpu::kMaxQueryRows, queries - first);
    cpu::Sight sights[cpu::kMaxQueryRows];
    for (int i = 0; i < count; ++i) {
      const int row = (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      sights[i] = Sight(part, row);
      Rotate(qkv + static_cast<size_t>(row) * m_.qkv_stride_ + head * size, Position(part, row),
             scale, scratch.query(i));
    }
    cpu::Attend(m_.kernels_, m_.attention_shape_, spans, sights, count, scratch);
    for (int i = 0; i < count; ++i) {
      const int row = part.first_row + (first + i) / group;
      const int head = kv_head * group + (first + i) % group;
      std::memcpy(
          m_.attended_.floats() + static_cast<size_t>(row) * m_.attended_stride_ + head * size,
          scratch.out(i), size * sizeof(float));
    }
  }
}

const float* Llama::Pass::Norm(int member, const cpu::Buffer& weight, const int* rows, int count) {
  const bool shared = count > kPrivateRows;
  float* out = shared ? m_.normed_.floats() : m_.normed_of_member_[member].floats();
  const Range share = shared ? Share(member, count) : Range{0, count};
  for (int i = share.begin; i < share.end; ++i) {
    const size_t row = rows == nullptr ? i : rows[i];
    m_.kernels_.rms_norm(m_.residual_.floats() + row * m_.hidden_stride_, weight.floats(),
                         m_.config_.hidden_size, cpu::RoundUpToPanel(m_.config_.hidden_size),
                         static_cast<float>(m_.config_.rms_norm_epsilon),
                         out + static_cast<size_t>(i) * m_.hidden_stride_);
  }
  if (shared) m_.team_.Barrier(member);
  return out;
}

void Llama::Pass::Multiply(int member, const PackedLinear& linear, const float* x, int x_stride,
                           int rows, Epilogue epilogue, cpu::Buffer& out, int out_stride,
                           int out_columns) {
  const Range share = Share(member, linear.matrix.panels());
  linear.matrix.Multiply(m_.kernels_, x, x_stride, rows, share.begin, share.end - share.begin,
                         epilogue, linear.bias_data(), out.floats(), out_stride, out_columns);
}

void Llama::Pass::Output(int member) {
  const int count = static_cast<int>(m_.logits_rows_.size());
  const float* normed = Norm(member, m_.weights_.final_norm(), m_.logits_rows_.data(), count);
  Multiply(member, m_.weights_.output(), normed, m_.hidden_stride_, count, Epilogue::kStore,
           m_.logits_, m_.config_.vocabulary_size, m_.config_.vocabulary_size);
}

}  // namespace tandem::model
