#include "model/span_pool.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::model {

SpanPool::SpanPool(int layers, int kv_heads, int head_size, int64_t tokens)
    : shape_{head_size},
      layers_(layers),
      kv_heads_(kv_heads),
      span_floats_(shape_.head_floats() * layers * kv_heads),
      span_count_(static_cast<int>((tokens + cpu::kSpanTokens - 1) / cpu::kSpanTokens)),
      memory_(cpu::FloatBuffer(span_floats_ * span_count_)) {
  for (int i = span_count_; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

int64_t SpanPool::TokenBytes(int layers, int kv_heads, int head_size) {
  cpu::AttentionShape shape{head_size};
  return static_cast<int64_t>(shape.head_floats() * sizeof(float) / cpu::kSpanTokens) * layers *
         kv_heads;
}

absl::StatusOr<std::vector<uint32_t>> SpanPool::Take(int spans) {
  if (spans > free_spans()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the key/value pool has room for ", int64_t{free_spans()} * cpu::kSpanTokens,
                     " of ", int64_t{span_count_} * cpu::kSpanTokens,
                     " tokens; this sequence asks for ", int64_t{spans} * cpu::kSpanTokens));
  }
  std::vector<uint32_t> taken(free_.rbegin(), free_.rbegin() + spans);
  free_.resize(free_.size() - spans);
  return taken;
}

void SpanPool::GiveBack(const std::vector<uint32_t>& spans) {
  free_.insert(free_.end(), spans.rbegin(), spans.rend());
}

cpu::HeadSpans SpanPool::Head(int layer, int kv_head, const uint32_t* spans) {
  cpu::HeadSpans head;
  head.pool = memory_.floats();
  head.span_floats = span_floats_;
  head.offset = shape_.head_floats() * (static_cast<size_t>(layer) * kv_heads_ + kv_head);
  head.spans = spans;
  return head;
}

void SpanPool::Copy(const uint32_t* spans, int from, int to) {
  for (int layer = 0; layer < layers_; ++layer) {
    for (int head = 0; head < kv_heads_; ++head) {
      cpu::CopyKeyValue(shape_, Head(layer, head, spans), from, to);
    }
  }
}

}  // namespace tandem::model
