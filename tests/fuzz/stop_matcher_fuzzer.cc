// StopMatcher against the definition in its header, computed the slow way.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "orchestrator/stream/stop_matcher.h"
#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

struct Match {
  size_t index;  // of the string
  size_t begin;  // in the text
};

// The match that ends first, after the first `early` bytes; of those, the longest; of equal
// strings, the first.
std::optional<Match> FirstMatch(absl::string_view text, const std::vector<std::string>& strings,
                                size_t early) {
  for (size_t end = early + 1; end <= text.size(); ++end) {
    std::optional<Match> best;
    for (size_t i = 0; i < strings.size(); ++i) {
      if (!absl::EndsWith(text.substr(0, end), strings[i])) continue;
      if (!best || strings[i].size() > strings[best->index].size()) {
        best = Match{i, end - strings[i].size()};
      }
    }
    if (best) return best;
  }
  return std::nullopt;
}

// The longest end of `text` that a string begins with.
size_t Undecided(absl::string_view text, const std::vector<std::string>& strings) {
  size_t longest = 0;
  for (const std::string& string : strings) {
    for (size_t size = longest + 1; size < string.size() && size <= text.size(); ++size) {
      if (absl::EndsWith(text, absl::string_view(string).substr(0, size))) longest = size;
    }
  }
  return longest;
}

void Run(FuzzedDataProvider& data) {
  // Few different bytes, so that strings overlap with themselves and with each other.
  const uint8_t letters = data.ConsumeIntegralInRange<uint8_t>(1, 4);
  auto word = [&](size_t max) {
    std::string bytes = data.ConsumeRandomLengthString(max);
    for (char& byte : bytes) byte = static_cast<char>('a' + static_cast<uint8_t>(byte) % letters);
    return bytes;
  };
  std::vector<std::string> strings(data.ConsumeIntegralInRange<size_t>(0, 5));
  for (std::string& string : strings) {
    string = word(12);
    if (string.empty()) string = "a";
  }

  orchestrator::StopMatcher matcher(strings);
  std::string text, released;
  const size_t early_pieces = data.ConsumeIntegralInRange<size_t>(0, 4);
  size_t pieces = 0;
  size_t early = 0;  // bytes in which no match counts
  while (data.remaining_bytes() > 0) {
    const std::string piece = word(20);
    text += piece;
    const bool may_end = pieces++ >= early_pieces;
    if (!may_end) early = text.size();
    orchestrator::StopMatcher::Result result = matcher.Feed(piece, may_end);
    released += result.text;
    const std::optional<Match> expected = FirstMatch(text, strings, early);
    TANDEM_CHECK(result.matched.has_value() == expected.has_value()) << text;
    if (expected) {
      TANDEM_CHECK(*result.matched == expected->index) << text;
      TANDEM_CHECK(released == text.substr(0, expected->begin)) << text;
      return;
    }
    TANDEM_CHECK(released == text.substr(0, text.size() - Undecided(text, strings)))
        << "\"" << released << "\" of \"" << text << "\"";
  }
  TANDEM_CHECK(released + matcher.Finish() == text) << text;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {std::string("\0\0abcaab\\ ababab", 16), "aabaab\\ ab\\ aaaabaaab\\ ba\x02\x02"};
}

}  // namespace tandem::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  tandem::fuzz::Run(data);
  return 0;
}
