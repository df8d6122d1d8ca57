#include "common/tokenizer/detokenizer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tokenizer/tokenizer_impl.h"

namespace tandem::tokenizer {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer,
                                               absl::Span<const uint32_t> prompt)
    : tokenizer_(tokenizer) {
  for (const uint32_t id : prompt) {
    // What is complete belongs to the prompt; an unknown id changes nothing.
    Feed(id).IgnoreError();
  }
}

absl::StatusOr<std::string> IncrementalDetokenizer::Feed(uint32_t id) {
  const TandemToken token = tokenizer_.impl_->Token(id);
  if (token.kind == TANDEM_TOKEN_NONE) {
    return absl::InvalidArgumentError(
        absl::StrCat("token id ", id, " is not in the vocabulary, whose ids are below ",
                     tokenizer_.vocabulary_size()));
  }
  std::string text;
  if (token.kind == TANDEM_TOKEN_SPECIAL) return text;
  held_ += ToStringView(at_start_ ? token.first : token.later);
  at_start_ = false;
  const size_t left = AppendText(held_, tokenizer_.impl_->replacement, text);
  held_.erase(0, held_.size() - left);
  return text;
}

std::string IncrementalDetokenizer::Finish() {
  return ReplacementText(std::exchange(held_, {}), tokenizer_.impl_->replacement);
}

}  // namespace tandem::tokenizer
