#include "model/page_pool.h"

namespace tandem::model {

PagePool::PagePool(int layers, int kv_heads, const cpu::AttentionShape& shape, int64_t tokens)
    : PageStore(static_cast<int>((tokens + cpu::kPageTokens - 1) / cpu::kPageTokens)),
      shape_(shape),
      layers_(layers),
      kv_heads_(kv_heads),
      page_floats_(shape_.head_floats() * layers * kv_heads),
      memory_(cpu::FloatBuffer(page_floats_ * static_cast<size_t>(PageStore::pages()))) {}

int64_t PagePool::TokenBytes(int layers, int kv_heads, const cpu::AttentionShape& shape) {
  return static_cast<int64_t>(shape.head_floats() * sizeof(float) / cpu::kPageTokens) * layers *
         kv_heads;
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
