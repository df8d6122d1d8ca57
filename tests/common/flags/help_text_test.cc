#include "common/flags/help_text.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

using ::testing::HasSubstr;

TEST(HelpTextTest, OneColumnOfNamesOverAllGroups) {
  EXPECT_EQ(HelpText({{"", "a", "first", ""}, {"G", "long-one", "second", "0 to 9"}}),
            "  --a         first\n\nG:\n  --long-one  second (0 to 9)\n");
  EXPECT_EQ(HelpText({}), "");
}

TEST(HelpTextTest, LinesAreWrappedBelowEachOther) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += i == 0 ? "word" : " word";
  const std::string text = HelpText({{"", "name", words, "default 1"}});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100u);
    EXPECT_EQ(line.find("word"), 10u);
  }
  EXPECT_THAT(lines.back(), HasSubstr("(default 1)"));
}

TEST(HelpTextTest, RangeAndDefaultStayTogether) {
  const std::string text = HelpText({{"", "name", std::string(80, 'w'), "0 to 9; default 4"}});
  EXPECT_EQ(text, "  --name  " + std::string(80, 'w') + "\n          (0 to 9; default 4)\n");
}

// However long the names are; and a word that fits nowhere has a line.
TEST(HelpTextTest, LongNamesLeaveRoom) {
  const std::string word(90, 'w');
  const std::string text =
      HelpText({{"", std::string(80, 'n'), "some words " + word + " more", ""}});
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("  some words"));
  EXPECT_EQ(lines[1], std::string(86, ' ') + word);
  EXPECT_EQ(lines[2], std::string(86, ' ') + "more");
}

}  // namespace
}  // namespace tandem::flags
