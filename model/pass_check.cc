#include "model/pass_check.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "model/paged_cache.h"
#include "model/token_tree.h"

namespace tandem::model {

absl::Status CheckPass(absl::Span<const ForwardPart> parts, const PageStore& store,
                       uint32_t vocabulary_size, int max_rows, uint64_t step) {
  size_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ForwardPart& part = parts[i];
    auto wrong = [i](auto... what) {
      return absl::InvalidArgumentError(absl::StrCat("part ", i, ": ", what...));
    };
    auto* cache = dynamic_cast<PagedCache*>(part.cache);
    if (cache == nullptr || cache->pool() != &store) {
      return wrong("its cache is not one of this model's");
    }
    if (std::exchange(cache->last_step, step) == step) return wrong("its cache comes twice");
    if (part.tokens.empty()) return wrong("it has no tokens");
    const size_t count = part.tokens.size();
    if (count > static_cast<size_t>(cache->max_length() - cache->length())) {
      return wrong(count, " tokens do not fit: the cache holds ", cache->length(), " of ",
                   cache->max_length());
    }
    const LastPart& last = cache->last_part();
    if (part.grows && (part.parents.empty() || last.base() + last.rows() != cache->length())) {
      return wrong("it grows a tree, and ", part.parents.empty()
                                                ? "has no parents"
                                                : "its cache did not end with the last part");
    }
    const int open = part.grows ? last.rows() : 0;
    if (absl::Status status = CheckParents(part.parents, count, open); !status.ok()) {
      return wrong(status.message());
    }
    if (!part.grows && cache->branches())
      return wrong("its cache holds a tree; a path of it must be kept first");
    if (part.first_logits_row < 0 || static_cast<size_t>(part.first_logits_row) > count) {
      return wrong("first_logits_row is ", part.first_logits_row, "; 0 to ", count);
    }
    for (uint32_t token : part.tokens) {
      if (token >= vocabulary_size) {
        return wrong("token ", token, " is not below the vocabulary's ", vocabulary_size);
      }
    }
    rows += count;
  }
  if (rows > static_cast<size_t>(max_rows)) {
    return absl::InvalidArgumentError(absl::StrCat(rows, " rows in one pass; at most ", max_rows));
  }
  return absl::OkStatus();
}

}  // namespace tandem::model
