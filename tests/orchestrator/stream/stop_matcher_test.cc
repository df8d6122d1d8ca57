#include "orchestrator/stream/stop_matcher.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

struct Naive {
  std::string text;
  std::optional<size_t> matched;
};

// The match that ends first; of those, the longest; text before it.
Naive FindNaively(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> matched;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t size = stops[i].size();
      if (size > end || text.compare(end - size, size, stops[i]) != 0) continue;
      if (!matched || size > stops[*matched].size()) matched = i;
    }
    if (matched) return {text.substr(0, end - stops[*matched].size()), matched};
  }
  return {text, std::nullopt};
}

// The longest suffix of the text that a stop string begins with.
size_t HeldNaively(const std::string& text, const std::vector<std::string>& stops) {
  size_t held = 0;
  for (const std::string& stop : stops) {
    for (size_t size = 1; size < stop.size() && size <= text.size(); ++size) {
      if (text.compare(text.size() - size, size, stop, 0, size) == 0) held = std::max(held, size);
    }
  }
  return held;
}

TEST(StopMatcher, AgreesWithANaiveSearchHoweverTheTextIsCut) {
  std::mt19937 random(1);
  int matches = 0;
  for (int round = 0; round < 20000; ++round) {
    const uint32_t letters = 2 + random() % 2;
    auto draw = [&](size_t size) {
      std::string text(size, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % letters);
      return text;
    };
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = draw(1 + random() % 6);
    const std::string text = draw(random() % 40);
    const Naive expected = FindNaively(text, stops);

    StopMatcher matcher(stops);
    std::string out;
    std::optional<size_t> matched;
    size_t read = 0;
    while (read < text.size() && !matched) {
      const size_t size = std::min<size_t>(random() % 5, text.size() - read);
      StopMatcher::Result result = matcher.Feed(text.substr(read, size));
      read += size;
      out += result.text;
      matched = result.matched;
      if (!matched) {
        ASSERT_EQ(read - out.size(), HeldNaively(text.substr(0, read), stops))
            << "holds back the least that could begin a match";
      }
    }
    if (!matched) out += matcher.Finish();
    ASSERT_EQ(out, expected.text);
    ASSERT_EQ(matched.has_value(), expected.matched.has_value());
    if (matched) {
      ++matches;
      ASSERT_EQ(matcher.string(*matched), stops[*expected.matched]);
    }
  }
  EXPECT_GT(matches, 1000);
}

TEST(StopMatcher, WhatIsCompleteTooEarlyIsNoMatchButItsEndMayBeginOne) {
  StopMatcher matcher({"abab"});
  StopMatcher::Result result = matcher.Feed("xabab", /*may_end=*/false);
  EXPECT_FALSE(result.matched.has_value());
  EXPECT_EQ(result.text, "xab") << "the second half may begin another one";
  result = matcher.Feed("ab");
  EXPECT_TRUE(result.matched.has_value());
  EXPECT_EQ(result.text, "");

  StopMatcher letter({"a"});
  EXPECT_EQ(letter.Feed("aaa", /*may_end=*/false).text, "aaa");
  EXPECT_TRUE(letter.Feed("a").matched.has_value());
}

TEST(StopMatcher, NoStringsHoldNothing) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Feed("abc").text, "abc");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, NeverReleasesHalfACharacter) {
  StopMatcher matcher({"\xc3\xa9\xc3\xa9!"});  // two e with acute accents
  EXPECT_EQ(matcher.Feed("x\xc3\xa9").text, "x");
  EXPECT_EQ(matcher.Feed("\xc3\xa9").text, "");
  EXPECT_EQ(matcher.Feed("\xc3\xa9").text, "\xc3\xa9");
  StopMatcher::Result result = matcher.Feed("!y");
  EXPECT_EQ(result.text, "");
  EXPECT_TRUE(result.matched.has_value());
}

}  // namespace
}  // namespace tandem::orchestrator
