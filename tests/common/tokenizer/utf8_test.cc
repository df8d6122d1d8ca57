#include "common/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/common/tokenizer/test_tokenizers.h"

namespace tandem::tokenizer::utf8_test {
namespace {

constexpr char kR[] = "\xEF\xBF\xBD";

struct Case {
  std::string bytes;
  std::string parts;  // text with one U+FFFD for each part, kR written as '?'
  std::string each;   // with one for each byte
  size_t left;        // bytes left over
};

std::string WithMarks(std::string text) {
  for (size_t at = 0; (at = text.find('?', at)) != std::string::npos; at += 3) {
    text.replace(at, 1, kR);
  }
  return text;
}

class Utf8Test : public ::testing::TestWithParam<Case> {};

TEST_P(Utf8Test, BothReplacements) {
  std::string parts, each;
  EXPECT_EQ(AppendText(GetParam().bytes, Replacement::kEachPart, parts), GetParam().left);
  EXPECT_EQ(AppendText(GetParam().bytes, Replacement::kEachByte, each), GetParam().left);
  EXPECT_EQ(parts, WithMarks(GetParam().parts));
  EXPECT_EQ(each, WithMarks(GetParam().each));
}

INSTANTIATE_TEST_SUITE_P(Cases, Utf8Test,
                         ::testing::Values(Case{"", "", "", 0},              //
                                           Case{"aé€😀", "aé€😀", "aé€😀", 0},  //
                                           Case{"\xF0\x9F\x98", "", "", 3},  // unfinished
                                           Case{"a\xC3", "a", "a", 1},       //
                                           Case{"\x80", "?", "?", 0},        // continues nothing
                                           Case{"\xC0\xAF", "??", "??", 0},  // overlong
                                           Case{"\xE0\x80\xAF", "???", "???", 0},  //
                                           Case{"\xED\xA0\x80", "???", "???", 0},  // a surrogate
                                           Case{"\xF4\x90\x80\x80", "????", "????",
                                                0},                    // beyond U+10FFFF
                                           Case{"\xF5", "?", "?", 0},  //
                                           Case{"\xE5\x8F"
                                                "a",
                                                "?a", "??a", 0},  // cut short
                                           Case{"\xF0\x9F\x98\xF0\x9F", "?", "???", 2},  //
                                           Case{"\xE5\x8F\xAB\xFF\xE5", "叫?", "叫?", 1}));

TEST(Utf8, WhatIsLeftOver) {
  EXPECT_EQ(ReplacementText("\xF0\x9F\x98", Replacement::kEachPart), kR);
  EXPECT_EQ(ReplacementText("\xF0\x9F\x98", Replacement::kEachByte), WithMarks("???"));
  EXPECT_EQ(ReplacementText("", Replacement::kEachPart), "");
  EXPECT_EQ(ReplacementText("", Replacement::kEachByte), "");
}

TEST(Utf8, EachByteAgreesWithAnIndependentReadingOnRandomBytes) {
  std::mt19937 random(7);
  for (int run = 0; run < 20000; ++run) {
    // Bytes from the ranges where the rules differ.
    constexpr std::string_view kBytes = "a\x80\x8F\x90\x9F\xA0\xBF\xC2\xE0\xE5\xED\xF0\xF1\xF4\xF5";
    std::string bytes;
    for (size_t i = random() % 10; i > 0; --i) bytes += kBytes[random() % kBytes.size()];
    std::string text;
    const size_t left = AppendText(bytes, Replacement::kEachByte, text);
    ASSERT_LE(left, 3u);
    text += ReplacementText(bytes.substr(bytes.size() - left), Replacement::kEachByte);

    std::string expected;
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t length = CharacterLength(rest);
      expected += length == 0 ? std::string(kR) : std::string(rest.substr(0, length));
      rest.remove_prefix(length == 0 ? 1 : length);
    }
    ASSERT_EQ(text, expected) << ::testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace tandem::tokenizer::utf8_test
