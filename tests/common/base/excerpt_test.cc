#include "common/base/excerpt.h"

#include <string>

#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(ExcerptTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Excerpt("a\x1b[2J\n\r\t\x7f\xc2\x9b ä"), "a\\x1b[2J\\n\\x0d\\x09\\x7f\\x9b ä");
  EXPECT_EQ(MessageForTerminal("a\x1b\n  hint"), "a\\x1b\n  hint");
}

TEST(ExcerptTest, ALongTextIsCutAtACharacter) {
  EXPECT_EQ(Excerpt("abcd", 4), "abcd");
  EXPECT_EQ(Excerpt("abcde", 4), "abcd… (5 bytes)");
  EXPECT_EQ(Excerpt("abcää", 4), "abc… (7 bytes)");
  const std::string megabyte(1 << 20, '\x1b');
  EXPECT_LT(MessageForTerminal(megabyte).size(), 40000u);
  EXPECT_EQ(MessageForTerminal(std::string(8192, 'a')), std::string(8192, 'a'));
}

}  // namespace
}  // namespace tandem::base
