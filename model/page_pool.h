// The memory for keys and values of all sequences of a model: one block, cut into pages of
// cpu::kPageTokens cells (page_store.h).
#pragma once

#include <cstdint>

#include "model/cpu/attention.h"
#include "model/cpu/buffer.h"
#include "model/page_store.h"

namespace tandem::model {

// Thread safety: as PageStore. The memory is reserved as addresses, and costs memory only where it
// was written.
class PagePool final : public PageStore {
 public:
  // `tokens` is rounded up to whole pages.
  PagePool(int layers, int kv_heads, const cpu::AttentionShape& shape, int64_t tokens);

  // Bytes that one token takes in all layers and heads.
  static int64_t TokenBytes(int layers, int kv_heads, const cpu::AttentionShape& shape);

  // The place of one layer's head in each page of a list. Points at `pages`, which must outlive it.
  cpu::HeadPages Head(int layer, int kv_head, const uint32_t* pages);

  void Copy(const uint32_t* pages, int from, int to) override;

 private:
  const cpu::AttentionShape shape_;
  const int layers_;
  const int kv_heads_;
  const size_t page_floats_;
  cpu::Buffer memory_;  // [pages][layers][kv_heads]{keys, values}
};

}  // namespace tandem::model
