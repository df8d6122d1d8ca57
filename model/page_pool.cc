#include "model/page_pool.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::model {

PagePool::PagePool(int layers, int kv_heads, int head_size, int64_t tokens)
    : shape_{head_size},
      layers_(layers),
      kv_heads_(kv_heads),
      page_floats_(shape_.head_floats() * layers * kv_heads),
      page_count_(static_cast<int>((tokens + cpu::kPageTokens - 1) / cpu::kPageTokens)),
      memory_(cpu::FloatBuffer(page_floats_ * page_count_)),
      holders_(page_count_) {
  for (int i = page_count_; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

int64_t PagePool::TokenBytes(int layers, int kv_heads, int head_size) {
  cpu::AttentionShape shape{head_size};
  return static_cast<int64_t>(shape.head_floats() * sizeof(float) / cpu::kPageTokens) * layers *
         kv_heads;
}

absl::StatusOr<std::vector<uint32_t>> PagePool::Allocate(int pages) {
  if (pages > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the key/value pool has room for ", int64_t{free_pages()} * cpu::kPageTokens,
                     " of ", int64_t{page_count_} * cpu::kPageTokens,
                     " tokens; this sequence asks for ", int64_t{pages} * cpu::kPageTokens));
  }
  std::vector<uint32_t> taken(free_.rbegin(), free_.rbegin() + pages);
  free_.resize(free_.size() - pages);
  for (uint32_t page : taken) holders_[page] = 1;
  return taken;
}

void PagePool::Free(const std::vector<uint32_t>& pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
    if (--holders_[*page] == 0) free_.push_back(*page);
  }
}

cpu::HeadPages PagePool::Head(int layer, int kv_head, const uint32_t* pages) {
  cpu::HeadPages head;
  head.pool = memory_.floats();
  head.page_floats = page_floats_;
  head.offset = shape_.head_floats() * (static_cast<size_t>(layer) * kv_heads_ + kv_head);
  head.pages = pages;
  return head;
}

void PagePool::Copy(const uint32_t* pages, int from, int to) {
  for (int layer = 0; layer < layers_; ++layer) {
    for (int head = 0; head < kv_heads_; ++head) {
      cpu::CopyKeyValue(shape_, Head(layer, head, pages), from, to);
    }
  }
}

}  // namespace tandem::model
