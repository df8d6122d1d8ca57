#include "orchestrator/stream/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::orchestrator {

StopMatcher::StopMatcher(std::vector<std::string> strings) {
  patterns_.reserve(strings.size());
  for (std::string& text : strings) {
    TANDEM_CHECK(!text.empty()) << "an empty stop string";
    Pattern pattern;
    pattern.failure.resize(text.size(), 0);
    for (uint32_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.failure[border - 1];
      if (text[i] == text[border]) ++border;
      pattern.failure[i] = border;
    }
    pattern.text = std::move(text);
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::Follow(char byte) {
  while (state > 0 && text[state] != byte) state = failure[state - 1];
  if (text[state] == byte) ++state;
}

StopMatcher::Result StopMatcher::Feed(absl::string_view piece, bool may_end) {
  held_.reserve(held_.size() + piece.size());
  for (char byte : piece) {
    held_.push_back(byte);
    std::optional<size_t> matched;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      patterns_[i].Follow(byte);
      if (patterns_[i].state < patterns_[i].text.size()) continue;
      if (!may_end) {
        patterns_[i].state = patterns_[i].failure.back();
        continue;
      }
      if (!matched || patterns_[i].text.size() > patterns_[*matched].text.size()) matched = i;
    }
    if (matched) {
      held_.resize(held_.size() - patterns_[*matched].text.size());
      return {std::exchange(held_, {}), matched};
    }
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max<size_t>(keep, pattern.state);
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return {std::move(text), std::nullopt};
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace tandem::orchestrator
