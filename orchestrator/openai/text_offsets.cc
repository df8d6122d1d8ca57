#include "orchestrator/openai/text_offsets.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"

namespace tandem::orchestrator {

// By their first bytes.
size_t Characters(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// What the text gains may begin with bytes of tokens before, which make no character after all.
size_t TextOffsets::Next(uint32_t id) {
  const size_t begin = end_;
  const size_t gained = Characters(text_->Feed(id).value_or(""));
  const size_t own = Characters(alone_->Feed(id).value_or(""));
  alone_->Finish();
  end_ += gained;
  return begin + (gained > own ? gained - own : 0);
}

std::vector<size_t> PromptOffsets(absl::string_view text, absl::Span<const uint32_t> ids,
                                  const TextOffsets::NewDetokenizer& detokenizer,
                                  const TokenBytes& special_name) {
  TextOffsets offsets(detokenizer, 0);
  std::vector<size_t> all;
  all.reserve(ids.size());
  for (const uint32_t id : ids) {
    const size_t begin = offsets.end();
    all.push_back(offsets.Next(id));
    const std::string name = special_name(id);
    if (absl::StartsWith(text, name)) offsets.Skip(Characters(name));
    for (size_t left = offsets.end() - begin; left > 0 && !text.empty(); --left) {
      do text.remove_prefix(1);
      while (!text.empty() && Characters(text.substr(0, 1)) == 0);
    }
  }
  return all;
}

}  // namespace tandem::orchestrator
