#include "model/page_store.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "model/cpu/attention.h"

namespace tandem::model {

PageStore::PageStore(int pages) : page_count_(pages), holders_(static_cast<size_t>(pages)) {
  for (int i = page_count_; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

absl::StatusOr<std::vector<uint32_t>> PageStore::Allocate(int pages) {
  if (pages > free_pages()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the key/value pool has room for ", int64_t{free_pages()} * cpu::kPageTokens,
                     " of ", int64_t{page_count_} * cpu::kPageTokens,
                     " tokens; this sequence asks for ", int64_t{pages} * cpu::kPageTokens));
  }
  std::vector<uint32_t> taken(free_.rbegin(), free_.rbegin() + pages);
  free_.resize(free_.size() - pages);
  for (uint32_t page : taken) holders_[page] = 1;
  ++changes_;
  return taken;
}

void PageStore::Free(const std::vector<uint32_t>& pages) {
  ++changes_;
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
    if (--holders_[*page] == 0) free_.push_back(*page);
  }
}

}  // namespace tandem::model
