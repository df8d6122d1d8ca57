// What a Tokenizer holds. For tokenizer.cc and detokenizer.cc only.
#pragma once

#include <memory>
#include <string_view>

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

struct Tokenizer::Impl {
  std::unique_ptr<TandemTokenizer, BridgeDeleter> bridge;
  uint32_t vocabulary_size = 0;
  Replacement replacement = Replacement::kEachPart;
  ContentId content;

  TandemToken Token(uint32_t id) const { return tandem_tokenizer_token(bridge.get(), id); }
};

}  // namespace tandem::tokenizer
