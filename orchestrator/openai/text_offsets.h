// Where in a text the tokens of it begin, counted in Unicode characters (code points), as OpenAI
// and vLLM count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "orchestrator/generate/token_bytes.h"
#include "orchestrator/stream/token_stream.h"

namespace tandem::orchestrator {

// Of valid UTF-8.
size_t Characters(absl::string_view text);

// Of a text as it is generated. A token that only ends a character begins where the character does;
// one without a text, as a special token, begins where the next one does. Not thread-safe.
class TextOffsets {
 public:
  using NewDetokenizer = std::function<std::unique_ptr<Detokenizer>()>;

  // `detokenizer` makes one that has seen what precedes the text. `begin`: characters that were
  // sent before it.
  TextOffsets(const NewDetokenizer& detokenizer, size_t begin)
      : text_(detokenizer()), alone_(detokenizer()), end_(begin) {}

  // The offset of the next token. A text that a stop string ends is shorter than its tokens are.
  size_t Next(uint32_t id);
  // Characters that stand in the text and that no token's text has.
  void Skip(size_t characters) { end_ += characters; }
  size_t end() const { return end_; }  // of the text that is complete

 private:
  const std::unique_ptr<Detokenizer> text_;
  const std::unique_ptr<Detokenizer> alone_;  // gives a token's own text
  size_t end_;
};

// Of a prompt as the client gave it, from its beginning. `special_name`: of a special token, which
// counts where the text has it; empty for other tokens.
std::vector<size_t> PromptOffsets(absl::string_view text, absl::Span<const uint32_t> ids,
                                  const TextOffsets::NewDetokenizer& detokenizer,
                                  const TokenBytes& special_name);

}  // namespace tandem::orchestrator
