// scripts/terminal-picture: a coloured time line becomes an SVG that has all of it.
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/timeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

int Run(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string Picture(const std::string& text, const std::string& flags) {
  const std::string input = ::testing::TempDir() + "terminal_picture.txt";
  const std::string output = ::testing::TempDir() + "terminal_picture.svg";
  std::ofstream(input, std::ios::binary) << text;
  EXPECT_EQ(Run(absl::StrCat(TANDEM_SOURCE_DIR, "/scripts/terminal-picture ", flags, " <", input,
                             " >", output)),
            0);
  EXPECT_EQ(Run("python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' " + output), 0)
      << "no XML";
  std::ifstream stream(output, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TerminalPictureTest, HasAllOfATimeline) {
  const std::string text = Timeline(FiveRounds(), {{80, /*color=*/true, /*utf8=*/true}, false, 0});
  const std::string picture = Picture(text, "--command='a <b>'");
  // The six stages, as the terminal's 256 colours have them.
  for (const char* color : {"00af87", "ffaf00", "d787af", "d75f00", "0087d7", "8a8a8a"}) {
    EXPECT_EQ(Count(picture, absl::StrCat("<path fill=\"#", color, "\"")), 1u) << color;
  }
  EXPECT_EQ(Count(picture, "<circle class=\"f\""), Count(text, "●"));
  EXPECT_EQ(Count(picture, "<circle class=\"o\""), Count(text, "○"));
  EXPECT_EQ(Count(picture, "<circle class=\"o c\""), Count(text, "◌"));
  EXPECT_THAT(picture, AllOf(HasSubstr(">a &lt;b&gt;</text>"), HasSubstr(">first-round</text>"),
                             HasSubstr(">#102 ×12</text>"), HasSubstr(">slowest: network, 36 %"),
                             Not(HasSubstr("\x1b")), Not(HasSubstr("█"))));
}

// A cell is 8.4 wide, and the margin 16.
TEST(TerminalPictureTest, BarsAreWhereTheirCharactersWere) {
  const std::string picture = Picture("a \x1b[38;5;32m██▌\x1b[0m\n", "");
  EXPECT_THAT(picture, HasSubstr("<path fill=\"#0087d7\" d=\"M32.8 18.5h21v14h-21z\"/>"));
  // Two colours in a cell: half and half.
  const std::string halves = Picture("\x1b[38;5;32;48;5;36m▌\x1b[0m\n", "");
  EXPECT_THAT(halves, AllOf(HasSubstr("<path fill=\"#0087d7\" d=\"M16 18.5h4.2v14h-4.2z\"/>"),
                            HasSubstr("<path fill=\"#00af87\" d=\"M20.2 18.5h4.2v14h-4.2z\"/>")));
}

TEST(TerminalPictureTest, LongLinesAreWrapped) {
  const std::string picture = Picture("abcdef\n", "--columns=4");
  EXPECT_THAT(picture, AllOf(HasSubstr(">abcd</text>"), HasSubstr(">ef</text>")));
}

}  // namespace
}  // namespace tandem::client
