// Keys and values of one sequence, as a list of pages of a pool (page_pool.h).
//
// The token at position i lies in cell i. There is one exception: while a cache holds several
// branches of a tree, the tokens of its last part lie in the order in which they came.
//
// The lag invariant: a cache may hold fewer tokens than its sequence has committed. The cache of a
// draft is one token short after a whole block was accepted, because the draft never computed its
// own last draft token. Only length() says what is held. Whoever extends a cache feeds everything
// from length() on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "model/language_model.h"
#include "model/page_store.h"
#include "model/token_tree.h"

namespace tandem::model {

// Thread safety: none; one thread at a time (the device's) makes, extends and destroys caches.
class PagedCache final : public Cache {
 public:
  // Holds `pages`, which were taken from `pool`, and gives them back at its end. Shares the pool,
  // so that a cache may outlive its model.
  PagedCache(std::shared_ptr<PageStore> pool, std::vector<uint32_t> pages, int max_length);
  ~PagedCache() override;

  int length() const override { return length_; }
  int max_length() const override { return max_length_; }
  void Truncate(int length) override;
  void Keep(absl::Span<const int> path) override;
  int shared() const override { return shared_; }

  const PageStore* pool() const { return pool_.get(); }
  const uint32_t* pages() const { return pages_.data(); }

  // Counts a part that was computed: its keys and values lie in the `tokens` cells from length()
  // on. `parents` and `grows` as in ForwardPart.
  void Grow(int tokens, absl::Span<const int> parents, bool grows = false);
  const LastPart& last_part() const { return last_part_; }

  // Its first pages, which others may hold, too; it writes nothing into them any more. `tokens` of
  // whole pages are shared; of an empty cache they are its length from now on.
  uint32_t* SharedPages() { return pages_.data(); }
  void SetShared(int tokens);

  // Whether it holds several branches of a tree.
  bool branches() const { return last_part_.branches(); }

  // The number of the last pass that this cache was part of. A model uses it to notice a cache that
  // is named twice in one pass.
  uint64_t last_step = 0;

 private:
  const std::shared_ptr<PageStore> pool_;
  std::vector<uint32_t> pages_;
  const int max_length_;
  int length_ = 0;
  int shared_ = 0;
  LastPart last_part_;
};

}  // namespace tandem::model
