// Pages with the keys and values of what texts begin with, so that a later sequence that begins
// alike takes them and does not compute them again (a radix tree over pages; SGLang's
// RadixAttention, Zheng et al. 2024, section 3, with pages for tokens).
//
// A row's keys and values depend on its sequence's tokens alone, bit for bit, so a sequence that
// takes a page computes the same rows as one that fills it itself. Tokens are compared one by one:
// nothing is taken on the word of a hash. Scopes never mix.
//
// It holds pages that no sequence needs any more, until a sequence needs their room: then those
// that were used least recently go. So its bound is the pool.
//
// Thread safety: none; one thread at a time (the device's).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/language_model.h"
#include "model/page_store.h"
#include "model/paged_cache.h"

namespace tandem::model {

class PrefixCache {
 public:
  // `pool` must outlive it.
  explicit PrefixCache(PageStore& pool) : pool_(pool) {}
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // Pages for a new sequence: what nobody but this holds gives way, as far as required. As
  // PageStore::Allocate.
  absl::StatusOr<std::vector<uint32_t>> Allocate(int pages);
  CacheRoom room() const;  // as LanguageModel has it

  // LanguageModel::Recall and Share, of a PagedCache of this pool; anything else is a TANDEM_CHECK.
  int Recall(Cache& cache, const CachePrefix& prefix);
  void Share(Cache& cache, const CachePrefix& prefix);

 private:
  using Key = std::pair<uint64_t, std::vector<uint32_t>>;  // the parent, and the page's tokens

  // A page of tokens after what its parent stands for. The root of a scope has no page.
  struct Node {
    uint64_t parent = 0;
    uint32_t page = 0;
    int children = 0;
    uint64_t used = 0;  // rises
    Key key;
  };

  PagedCache& Mine(Cache& cache) const;
  // The pages of the longest beginning of `tokens` that is known in the scope, in whole pages. The
  // caller holds them from now on.
  std::vector<uint32_t> Take(absl::string_view scope, absl::Span<const uint32_t> tokens);
  // Page i of `pages` holds the tokens of page i of `tokens`, which are whole pages. Where the same
  // tokens are known already, the page that was there takes the place of the caller's in `pages`,
  // and the caller's goes back to the pool.
  void Add(absl::string_view scope, absl::Span<const uint32_t> tokens, uint32_t* pages);
  // Gives pages back to the pool that nobody but this holds, until `free` are free there or none is
  // left. Those that were used least recently go first.
  void MakeRoom(int free);
  int unused_pages() const;  // that MakeRoom could give back
  void Remove(uint64_t id);

  PageStore& pool_;
  std::map<std::string, std::pair<uint64_t, int>, std::less<>> scopes_;  // root, its children
  std::map<Key, uint64_t> children_;
  std::map<uint64_t, Node> nodes_;
  // unused_pages(), as of so many changes of the pool: the room is told with every round, and its
  // sequences come and go less often.
  mutable int unused_ = 0;
  mutable uint64_t counted_at_ = 0;
  uint64_t last_id_ = 0;
  uint64_t last_use_ = 0;
};

}  // namespace tandem::model
