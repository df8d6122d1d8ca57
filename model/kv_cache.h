// Keys and values of all sequences: one pool of spans of 256 slots; a sequence is a list of
// spans. A position lies in the slot of its number; only while a cache holds several branches of a
// tree do rows of the last part lie in the order in which they came.
//
// The lag invariant: a cache may hold fewer tokens than its sequence has committed. A draft's is
// one short after a whole block was accepted, since it never stepped its own last candidate.
// length() is the only truth about what is held; whoever steps a cache feeds everything from
// length() on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model/cpu/attention.h"
#include "model/cpu/buffer.h"
#include "model/language_model.h"
#include "model/token_tree.h"

namespace tandem::model {

// Thread safety: none; one thread at a time (the device's) makes, steps and destroys caches. Memory
// is reserved as addresses and paid for where it is first written; spans given back are used again
// first.
class SpanPool {
 public:
  SpanPool(int layers, int kv_heads, int head_size, int64_t tokens);

  // Bytes that one token takes.
  static int64_t TokenBytes(int layers, int kv_heads, int head_size);

  int spans() const { return span_count_; }
  int free_spans() const { return static_cast<int>(free_.size()); }

  // RESOURCE_EXHAUSTED, and nothing taken, where fewer are free.
  absl::StatusOr<std::vector<uint32_t>> Take(int spans);
  void GiveBack(const std::vector<uint32_t>& spans);

  // The place of one layer's head in the spans of a list.
  cpu::HeadSpans Head(int layer, int kv_head, const uint32_t* spans);

  // What lies in slot `from` of a list of spans lies in `to` as well, in all layers and heads.
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

class SpanCache final : public Cache {
 public:
  // Holds the pool, so that a cache may outlive its model.
  SpanCache(std::shared_ptr<SpanPool> pool, std::vector<uint32_t> spans, int max_length);
  ~SpanCache() override;

  int length() const override { return length_; }
  int max_length() const override { return max_length_; }
  void Truncate(int length) override;
  void Keep(absl::Span<const int> path) override;

  const SpanPool* pool() const { return pool_.get(); }
  const uint32_t* spans() const { return spans_.data(); }

  // A part was stepped: its keys and values lie in the slots from length() on.
  void Grow(int tokens, absl::Span<const int> parents);

  // Whether it holds several branches of a tree.
  bool branches() const { return last_part_.branches(); }

  // The number of the last step that this cache was part of; tells a cache named twice in one step.
  uint64_t last_step = 0;

 private:
  const std::shared_ptr<SpanPool> pool_;
  const std::vector<uint32_t> spans_;
  const int max_length_;
  int length_ = 0;
  LastPart last_part_;
};

}  // namespace tandem::model
