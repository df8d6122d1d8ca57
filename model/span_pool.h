// The memory for keys and values of all sequences of a model: one block, cut into spans of
// cpu::kSpanTokens slots. A slot has room for one token in all layers and key/value heads. A
// sequence owns a list of spans; slot s of the sequence lies in the span s / kSpanTokens of its
// list.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "model/cpu/attention.h"
#include "model/cpu/buffer.h"

namespace tandem::model {

// Thread safety: none; one thread at a time (the device's) takes, gives back and copies. The memory
// is reserved as addresses, and costs pages only where it was written. Spans that were given back
// are taken again first.
class SpanPool {
 public:
  // `tokens` is rounded up to whole spans.
  SpanPool(int layers, int kv_heads, int head_size, int64_t tokens);

  // Bytes that one token takes in all layers and heads.
  static int64_t TokenBytes(int layers, int kv_heads, int head_size);

  int spans() const { return span_count_; }
  int free_spans() const { return static_cast<int>(free_.size()); }

  // RESOURCE_EXHAUSTED where fewer than `spans` are free; then none is taken.
  absl::StatusOr<std::vector<uint32_t>> Take(int spans);
  void GiveBack(const std::vector<uint32_t>& spans);

  // The place of one layer's head in each span of a list. Points at `spans`, which must outlive it.
  cpu::HeadSpans Head(int layer, int kv_head, const uint32_t* spans);

  // Copies what lies in slot `from` of a list of spans to slot `to`, in all layers and heads.
  void Copy(const uint32_t* spans, int from, int to);

 private:
  const cpu::AttentionShape shape_;
  const int layers_;
  const int kv_heads_;
  const size_t span_floats_;
  const int span_count_;
  cpu::Buffer memory_;          // [spans][layers][kv_heads]{keys, values}
  std::vector<uint32_t> free_;  // the last is the next to go
};

}  // namespace tandem::model
