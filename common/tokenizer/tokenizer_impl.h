// What a Tokenizer holds, and what calls of the bridge need. For the sources of this folder only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/dynamic_annotations.h"
#include "common/tokenizer/bridge/tandem_tokenizer.h"
#include "common/tokenizer/content_id.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"

namespace tandem::tokenizer {

struct BridgeDeleter {
  void operator()(TandemTokenizer* bridge) const { tandem_tokenizer_free(bridge); }
};

inline std::string_view ToStringView(const TandemView& view) {
  return {reinterpret_cast<const char*>(view.data), view.size};
}

inline const uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Takes over what the bridge returned.
inline std::string TakeString(TandemBuffer buffer) {
  std::string text(reinterpret_cast<const char*>(buffer.data), buffer.size);
  tandem_buffer_free(buffer);
  return text;
}

inline std::vector<uint32_t> TakeIds(TandemIds ids) {
  std::vector<uint32_t> result(ids.data, ids.data + ids.size);
  tandem_ids_free(ids);
  return result;
}

// ThreadSanitizer does not see Rust's atomics, but it sees Rust's memory copies. So it would report
// races where the crate hands data from thread to thread. While a BridgeCall lives, it looks at
// neither. A no-op in every other build.
class BridgeCall {
 public:
  BridgeCall() { ABSL_ANNOTATE_IGNORE_READS_AND_WRITES_BEGIN(); }
  ~BridgeCall() { ABSL_ANNOTATE_IGNORE_READS_AND_WRITES_END(); }
  BridgeCall(const BridgeCall&) = delete;
  BridgeCall& operator=(const BridgeCall&) = delete;
};

struct Tokenizer::Impl {
  std::unique_ptr<TandemTokenizer, BridgeDeleter> bridge;
  uint32_t vocabulary_size = 0;
  Replacement replacement = Replacement::kEachPart;
  ContentId content;
  // What Encode puts around a text instead of what tokenizer.json says; absent: as that says.
  struct Around {
    std::vector<uint32_t> before;
    std::vector<uint32_t> after;
  };
  std::optional<Around> around;
  std::vector<uint32_t> eos_token_ids;
  size_t max_token_bytes = 1;

  TandemToken Token(uint32_t id) const { return tandem_tokenizer_token(bridge.get(), id); }
};

}  // namespace tandem::tokenizer
