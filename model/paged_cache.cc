#include "model/paged_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::model {

PagedCache::PagedCache(std::shared_ptr<PageStore> pool, std::vector<uint32_t> pages, int max_length)
    : pool_(std::move(pool)), pages_(std::move(pages)), max_length_(max_length) {}

PagedCache::~PagedCache() { pool_->Free(pages_); }

void PagedCache::Truncate(int length) {
  TANDEM_CHECK(length >= shared_ && length <= length_)
      << "length " << length << " of " << length_ << ", shared " << shared_;
  length_ = length;
  last_part_.Truncate(length);
}

void PagedCache::SetShared(int tokens) {
  TANDEM_CHECK(tokens >= shared_ && (length_ == 0 || tokens <= length_));
  shared_ = tokens;
  length_ = std::max(length_, tokens);
}

void PagedCache::Grow(int tokens, absl::Span<const int> parents, bool grows) {
  if (grows) {
    last_part_.Grow(tokens, parents);
  } else {
    last_part_.Set(length_, tokens, parents);
  }
  length_ += tokens;
}

// The rows ascend, so none is overwritten before it has moved.
void PagedCache::Keep(absl::Span<const int> path) {
  length_ = last_part_.Keep(path);
  const int base = last_part_.base();
  for (int i = 0; i < static_cast<int>(path.size()); ++i) {
    if (path[i] != i) pool_->Copy(pages(), base + path[i], base + i);
  }
}

}  // namespace tandem::model
