// scripts/terminal-picture: a coloured time line becomes an SVG that has all of it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/generate/timeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"
#include "tests/support/paths.h"

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
  // Of this process: another test may run beside it.
  const std::string file = absl::StrCat(::testing::TempDir(), "terminal_picture_", getpid());
  const std::string input = file + ".txt";
  const std::string output = file + ".svg";
  std::ofstream(input, std::ios::binary) << text;
  EXPECT_EQ(Run(absl::StrCat(tandem::testing::SourcePath("scripts/terminal-picture"), " ", flags,
                             " <", input, " >", output)),
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

// The numbers that the groups of `pattern` stand for, where it is first found.
std::vector<double> Numbers(const std::string& picture, const std::string& pattern) {
  const std::regex regex(pattern);
  std::smatch found;
  std::vector<double> numbers(regex.mark_count(), -1);
  if (!std::regex_search(picture, found, regex)) {
    ADD_FAILURE() << pattern << " is not in " << picture;
    return numbers;
  }
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::stod(found[i + 1]);
  return numbers;
}

struct Rectangle {
  double left, top, width, height;
};

Rectangle BarOf(const std::string& color, const std::string& picture) {
  const std::vector<double> numbers = Numbers(
      picture, absl::StrCat("<path fill=\"#", color,
                            "\" d=\"M([0-9.]+) ([0-9.]+)h([0-9.]+)v([0-9.]+)h[-0-9.]+z\"/>"));
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

TEST(TerminalPictureTest, BarsAreWhereTheirCharactersWere) {
  constexpr double kRounding = 0.01;
  const std::string picture = Picture("a \x1b[38;5;32m██▌\x1b[0m\n", "");
  const std::vector<double> letter =
      Numbers(picture, "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" textLength=\"([0-9.]+)\">a</text>");
  const double left = letter[0], base = letter[1], cell = letter[2];
  ASSERT_GT(cell, 0);
  const Rectangle bar = BarOf("0087d7", picture);
  EXPECT_NEAR(bar.left, left + 2 * cell, kRounding);
  EXPECT_NEAR(bar.width, 2.5 * cell, kRounding);
  EXPECT_LT(bar.top, base - 0.5 * bar.height) << "on the line of its letters";
  EXPECT_GT(bar.top + bar.height, base);
  // Two colours in a cell: half and half.
  const std::string halves = Picture("\x1b[38;5;32;48;5;36m▌\x1b[0m\n", "");
  const Rectangle front = BarOf("0087d7", halves), back = BarOf("00af87", halves);
  EXPECT_NEAR(front.left, left, kRounding);
  EXPECT_NEAR(front.width, cell / 2, kRounding);
  EXPECT_NEAR(back.left, front.left + front.width, kRounding);
  EXPECT_NEAR(back.width, cell / 2, kRounding);
  EXPECT_EQ(back.top, front.top);
  EXPECT_EQ(back.height, front.height);
}

TEST(TerminalPictureTest, LongLinesAreWrapped) {
  const std::string picture = Picture("abcdef\n", "--columns=4");
  EXPECT_THAT(picture, AllOf(HasSubstr(">abcd</text>"), HasSubstr(">ef</text>")));
}

}  // namespace
}  // namespace tandem::client
