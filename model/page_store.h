// Pages of cells for keys and values: which are free, which are taken. A cell has room for one
// token in all layers and key/value heads. A sequence holds a list of pages; cell s of the sequence
// lies in the page s / cpu::kPageTokens of its list. Several may hold a page; then none writes into
// it (prefix_cache.h). What lies in a page is the business of the model that
// computes: page_pool.h holds it in this process's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::model {

// Thread safety: none; one thread at a time (the device's) takes, gives back and copies. Pages that
// were given back are taken again first.
class PageStore {
 public:
  explicit PageStore(int pages);
  virtual ~PageStore() = default;

  int pages() const { return page_count_; }
  int free_pages() const { return static_cast<int>(free_.size()); }

  // RESOURCE_EXHAUSTED where fewer than `pages` are free; then none is taken. The caller is the
  // only holder of each.
  absl::StatusOr<std::vector<uint32_t>> Allocate(int pages);
  // One holder more of a page that has some.
  void Hold(uint32_t page) {
    ++holders_[page];
    ++changes_;
  }
  // One holder fewer of each; without any it is free.
  void Free(const std::vector<uint32_t>& pages);
  int holders(uint32_t page) const { return holders_[page]; }
  // Rises whenever a page gets or loses a holder.
  uint64_t changes() const { return changes_; }

  // Copies what lies in cell `from` of a list of pages to cell `to`, in all layers and heads.
  virtual void Copy(const uint32_t* pages, int from, int to) = 0;

 private:
  const int page_count_;
  std::vector<uint32_t> free_;  // the last is the next to go
  std::vector<int> holders_;    // of each page
  uint64_t changes_ = 0;
};

}  // namespace tandem::model
