#include "common/flags/completion.h"

#include "common/flags/flag_set.h"
#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

struct Declared {
  Declared() {
    flags.Text("text", &text, "some\ntext");
    flags.TextList("stop", &list, "again and again");
    flags.Choice("choice", &choice, {"any", "all", "none"}, "one of three");
    flags.Switch("on", &on, "a switch");
    flags.Letter('c', "choice");
    flags.Argument("text", [](absl::string_view) { return absl::OkStatus(); });
  }
  std::string text, choice = "any";
  std::vector<std::string> list;
  bool on = false;
  FlagSet flags{"tandem x", "Does x."};
};

std::string Complete(std::vector<std::string> words) {
  words.insert(words.begin(), "--complete");
  return Declared().flags.Told(words).value_or("nothing was told");
}

TEST(CompletionTest, FlagsThatWereNotGivenYet) {
  EXPECT_EQ(
      Complete({""}),
      "--text=\tsome text\n--stop=\tagain and again\n--choice=\tone of three\n--on\ta switch\n");
  EXPECT_EQ(Complete({"--o"}), "--on\ta switch\n");
  EXPECT_EQ(Complete({"--text=a", "--stop", "--on", "-c", "any", "-"}),
            "--stop=\tagain and again\n--on\ta switch\n")
      << "the value of --stop is no flag";
  EXPECT_EQ(Complete({"--", "--o"}), "");
  EXPECT_EQ(Complete({"wor"}), "") << "no flag: a file, maybe";
}

TEST(CompletionTest, ValuesOfAList) {
  EXPECT_EQ(Complete({"--choice=a"}), "--choice=any\t\n--choice=all\t\n");
  EXPECT_EQ(Complete({"--choice", "a"}), "any\t\nall\t\n");
  EXPECT_EQ(Complete({"-c", ""}), "any\t\nall\t\nnone\t\n");
  EXPECT_EQ(Complete({"--text=a"}), "");
  EXPECT_EQ(Complete({"--text", ""}), "");
  EXPECT_EQ(Complete({"--other=a"}), "");
}

TEST(CompletionTest, HelpWithinTheWordsIsAWord) {
  EXPECT_EQ(Complete({"--help", "--on"}), "--on\ta switch\n");
  EXPECT_EQ(Declared().flags.Told({"--on", "--complete", "x"}), std::nullopt);
  EXPECT_NE(Declared().flags.Told({"--help"}).value_or("").find("Usage: tandem x"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem::flags
