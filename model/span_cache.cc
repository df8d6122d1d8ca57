#include "model/span_cache.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::model {

SpanCache::SpanCache(std::shared_ptr<SpanPool> pool, std::vector<uint32_t> spans, int max_length)
    : pool_(std::move(pool)), spans_(std::move(spans)), max_length_(max_length) {}

SpanCache::~SpanCache() { pool_->GiveBack(spans_); }

void SpanCache::Truncate(int length) {
  TANDEM_CHECK(length >= 0 && length <= length_) << "length " << length << " of " << length_;
  length_ = length;
  last_part_.Truncate(length);
}

void SpanCache::Grow(int tokens, absl::Span<const int> parents) {
  last_part_.Take(length_, tokens, parents);
  length_ += tokens;
}

// The rows ascend, so none is overwritten before it has moved.
void SpanCache::Keep(absl::Span<const int> path) {
  length_ = last_part_.Keep(path);
  const int base = last_part_.base();
  for (int i = 0; i < static_cast<int>(path.size()); ++i) {
    if (path[i] != i) pool_->Copy(spans(), base + path[i], base + i);
  }
}

}  // namespace tandem::model
