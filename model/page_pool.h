// The memory for keys and values of all sequences of a model: one block, cut into pages of
// cpu::kPageTokens cells. A cell has room for one token in all layers and key/value heads. A
// sequence holds a list of pages; cell s of the sequence lies in the page s / kPageTokens of its
// list. Several may hold a page; then none writes into it (prefix_cache.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "model/cpu/attention.h"
#include "model/cpu/buffer.h"

namespace tandem::model {

// Thread safety: none; one thread at a time (the device's) takes, gives back and copies. The memory
// is reserved as addresses, and costs memory only where it was written. Pages that were given back
// are taken again first.
class PagePool {
 public:
  // `tokens` is rounded up to whole pages.
  PagePool(int layers, int kv_heads, int head_size, int64_t tokens);

  // Bytes that one token takes in all layers and heads.
  static int64_t TokenBytes(int layers, int kv_heads, int head_size);

  int pages() const { return page_count_; }
  int free_pages() const { return static_cast<int>(free_.size()); }

  // RESOURCE_EXHAUSTED where fewer than `pages` are free; then none is taken. The caller is the only
  // holder of each.
  absl::StatusOr<std::vector<uint32_t>> Allocate(int pages);
  // One holder more of a page that has some.
  void Hold(uint32_t page) { ++holders_[page]; }
  // One holder fewer of each; without any it is free.
  void Free(const std::vector<uint32_t>& pages);
  int holders(uint32_t page) const { return holders_[page]; }

  // The place of one layer's head in each page of a list. Points at `pages`, which must outlive it.
  cpu::HeadPages Head(int layer, int kv_head, const uint32_t* pages);

  // Copies what lies in cell `from` of a list of pages to cell `to`, in all layers and heads.
  void Copy(const uint32_t* pages, int from, int to);

 private:
  const cpu::AttentionShape shape_;
  const int layers_;
  const int kv_heads_;
  const size_t page_floats_;
  const int page_count_;
  cpu::Buffer memory_;          // [pages][layers][kv_heads]{keys, values}
  std::vector<uint32_t> free_;  // the last is the next to go
  std::vector<int> holders_;    // of each page
};

}  // namespace tandem::model
