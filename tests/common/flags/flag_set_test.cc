#include "common/flags/flag_set.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  std::string text;
  std::vector<std::string> list;
  std::string choice = "a";
  uint64_t number = 7;
  std::optional<double> real;
  absl::Duration duration;
  bool on = false;
  std::string optional;
};

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    flags_.Text("text", &values_.text, "some text");
    flags_.TextList("stop", &values_.list, "repeats");
    flags_.Choice("choice", &values_.choice, {"a", "b"}, "one of two");
    flags_.Number("number", &values_.number, 1, 16, "a number");
    flags_.Real("real", &values_.real, {0, 1, true}, "a real");
    flags_.Duration("duration", &values_.duration, absl::ZeroDuration(), absl::Minutes(2),
                    "a time");
    flags_.Switch("on", &values_.on, "a switch");
    flags_.OptionalChoice("optional", &values_.optional, {"few", "all"}, "few", "or none");
  }

  absl::Status Parse(std::vector<std::string> args) { return flags_.Parse(args); }
  std::string Error(std::vector<std::string> args) {
    absl::Status status = Parse(std::move(args));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  Values values_;
  FlagSet flags_{"tandem x", "Does x."};
};

TEST(ChoiceTest, MayHaveANumber) {
  std::string device;
  const auto parsed = [&device](const std::string& text) {
    FlagSet flags("tandem x", "Does x.");
    flags.Choice("device", &device, {"cpu", "cuda", "cuda:N"}, "what computes");
    return flags.Parse({absl::StrCat("--device=", text)});
  };
  for (const char* text : {"cpu", "cuda", "cuda:0", "cuda:12"}) {
    EXPECT_TRUE(parsed(text).ok()) << text;
    EXPECT_EQ(device, text);
  }
  for (const char* text : {"cuda:", "cuda:x", "cuda:-1", "cuda:1000", "cuda1", "cpu:1", "cuda:N"}) {
    EXPECT_THAT(std::string(parsed(text).message()), HasSubstr("must be one of cpu, cuda, cuda:N"))
        << text;
  }
}

TEST_F(FlagSetTest, BothFormsAndRepetition) {
  ASSERT_TRUE(Parse({"--text=a=b", "--stop", "--x", "--stop=", "--choice", "b", "--number=16",
                     "--real=0.5", "--duration=1m30s", "--on"})
                  .ok());
  EXPECT_EQ(values_.text, "a=b");
  EXPECT_THAT(values_.list, ElementsAre("--x", ""));
  EXPECT_EQ(values_.choice, "b");
  EXPECT_EQ(values_.number, 16u);
  EXPECT_EQ(values_.real, 0.5);
  EXPECT_EQ(values_.duration, absl::Seconds(90));
  EXPECT_TRUE(values_.on);
}

TEST_F(FlagSetTest, AbsentFlagsKeepTheirDefaults) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(values_.number, 7u);
  EXPECT_FALSE(values_.real.has_value());
}

TEST_F(FlagSetTest, ErrorsNameFlagValueAndRange) {
  EXPECT_THAT(Error({"--number=17"}), AllOf(HasSubstr("--number=17"), HasSubstr("1 to 16")));
  EXPECT_THAT(Error({"--choice=c"}), AllOf(HasSubstr("--choice=c"), HasSubstr("a, b")));
  EXPECT_THAT(Error({"--duration=soon"}), AllOf(HasSubstr("--duration=soon"), HasSubstr("90s")));
  EXPECT_THAT(Error({"--on=maybe"}), HasSubstr("true or false"));
}

TEST_F(FlagSetTest, DurationsHaveAUnitAndARange) {
  for (const char* bad : {"", "30", "-1s", "999us", "121s", "soon", "inf"}) {
    absl::Duration duration;
    FlagSet flags("x", "");
    flags.Duration("for", &duration, absl::Milliseconds(1), absl::Minutes(2), "");
    EXPECT_EQ(flags.Parse({std::string("--for=") + bad}).message(),
              absl::StrCat("--for=", bad,
                           ": must be a time with its unit (200ms, 90s, 2m30s), 1ms to 2m"));
  }
  absl::Duration unlimited;
  FlagSet flags("x", "");
  flags.Duration("for", &unlimited, absl::ZeroDuration(), absl::InfiniteDuration(), "");
  EXPECT_THAT(flags.Help(), HasSubstr("(default 0)"));
  ASSERT_TRUE(flags.Parse({"--for=1000h"}).ok());
  EXPECT_EQ(unlimited, absl::Hours(1000));
}

TEST_F(FlagSetTest, NumbersAreWholeAndDecimal) {
  for (const char* bad :
       {"", "-1", "+1", " 1", "1 ", "0x1", "1.5", "1e1", "0", "18446744073709551616"}) {
    Values fresh;
    FlagSet flags("x", "");
    flags.Number("number", &fresh.number, 1, 16, "");
    EXPECT_FALSE(flags.Parse({std::string("--number=") + bad}).ok()) << bad;
  }
}

TEST_F(FlagSetTest, RealRangesAreOpenBelowWhereTheySaySo) {
  for (const char* bad : {"0", "1.01", "-1", "nan", "inf", "x", ""}) {
    FlagSet flags("x", "");
    flags.Real("real", &values_.real, {0, 1, true}, "");
    absl::Status status = flags.Parse({std::string("--real=") + bad});
    EXPECT_THAT(std::string(status.message()), HasSubstr("above 0, to 1")) << bad;
  }
}

TEST_F(FlagSetTest, NumberListsAddUp) {
  std::vector<uint32_t> ids;
  FlagSet flags("x", "");
  flags.NumberList("ids", &ids, 8, "ids");
  ASSERT_TRUE(flags.Parse({"--ids=1,4294967295", "--ids", "0"}).ok());
  EXPECT_THAT(ids, ElementsAre(1, UINT32_MAX, 0));
  EXPECT_THAT(std::string(flags.Parse({"--ids=1,2,3,4,5,6"}).message()), HasSubstr("more than 8"));
  ids.clear();
  for (const char* bad : {"--ids=", "--ids=1,", "--ids=-1", "--ids=1 2", "--ids=4294967296"}) {
    EXPECT_THAT(std::string(flags.Parse({bad}).message()),
                AllOf(HasSubstr(bad), HasSubstr("0 to")));
  }
}

TEST_F(FlagSetTest, NumbersOfEveryType) {
  uint32_t small = 3;
  int signed_one = 4;
  int64_t large = 5;
  std::optional<uint64_t> absent;
  FlagSet flags("x", "");
  flags.Number("small", &small, 0, UINT32_MAX, "");
  flags.Number("signed", &signed_one, 0, 64, "");
  flags.Number("large", &large, 0, uint64_t{1} << 32, "");
  flags.Number("absent", &absent, 1, UINT64_MAX, "");
  EXPECT_THAT(flags.Help(), AllOf(HasSubstr("(default 3)"), HasSubstr("(0 to 64; default 4)"),
                                  HasSubstr("(at least 1)")));
  ASSERT_TRUE(flags
                  .Parse({"--small=4294967295", "--signed=64", "--large=4294967296",
                          "--absent=18446744073709551615"})
                  .ok());
  EXPECT_EQ(small, UINT32_MAX);
  EXPECT_EQ(signed_one, 64);
  EXPECT_EQ(large, int64_t{1} << 32);
  EXPECT_EQ(absent, UINT64_MAX);
  FlagSet others("x", "");
  others.Number("large", &large, 0, uint64_t{1} << 32, "");
  EXPECT_THAT(std::string(others.Parse({"--large=4294967297"}).message()),
              HasSubstr("0 to 4294967296"));
}

// A name, up to the first equals sign, and nothing else.
TEST_F(FlagSetTest, UnderscoresAreTakenForHyphens) {
  std::string file;
  uint64_t sequences = 0;
  FlagSet flags("x", "");
  flags.Text("port-file", &file, "");
  flags.Number("max-sequences", &sequences, 1, 8, "");
  ASSERT_TRUE(flags.Parse({"--port_file=a_b=c_d", "--max_sequences", "7"}).ok());
  EXPECT_EQ(file, "a_b=c_d");
  EXPECT_EQ(sequences, 7u);
  FlagSet others("x", "");
  others.Number("max-sequences", &sequences, 1, 8, "");
  EXPECT_THAT(std::string(others.Parse({"--max_sequences=9"}).message()),
              HasSubstr("--max-sequences=9: must be a whole number, 1 to 8"));
  EXPECT_THAT(std::string(others.Parse({"--max_sequence=7"}).message()),
              HasSubstr("unknown flag --max_sequence; did you mean --max-sequences?"));
}

TEST_F(FlagSetTest, UnknownFlagsNameTheNearest) {
  EXPECT_THAT(Error({"--nunber=1"}), AllOf(HasSubstr("--nunber"), HasSubstr("--number?")));
  EXPECT_THAT(Error({"--quite-another"}), HasSubstr("tandem x --help"));
}

TEST_F(FlagSetTest, NothingIsIgnored) {
  EXPECT_THAT(Error({"stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(Error({"-n"}), HasSubstr("'-n'"));
  EXPECT_THAT(Error({"--"}), HasSubstr("'--'"));
  EXPECT_THAT(Error({"--text"}), HasSubstr("--text needs a value"));
}

TEST_F(FlagSetTest, OnlyListsRepeat) {
  EXPECT_THAT(Error({"--text=a", "--text=b"}), HasSubstr("--text is given twice"));
}

TEST_F(FlagSetTest, OrTheLastOneCounts) {
  flags_.LastOneCounts();
  ASSERT_TRUE(Parse({"--text=a", "--number=1", "--text=b", "--stop=x", "--stop=y"}).ok());
  EXPECT_EQ(values_.text, "b");
  EXPECT_EQ(values_.number, 1u);
  EXPECT_THAT(values_.list, ElementsAre("x", "y"));
}

TEST_F(FlagSetTest, HelpNamesEveryFlag) {
  flags_.Switch("more", &values_.on, "first line\nsecond line");
  // A second line begins below the first.
  EXPECT_THAT(flags_.Help(), HasSubstr("--more      first line\n              second line\n"));
  EXPECT_THAT(flags_.Help(), AllOf(HasSubstr("Does x."), HasSubstr("tandem x [flags]"),
                                   HasSubstr("--stop      repeats"), HasSubstr("--on")));
}

TEST_F(FlagSetTest, HelpTellsRangesAndDefaults) {
  const std::string help = flags_.Help();
  for (const char* line :
       {"one of two (default a)\n", "a number (1 to 16; default 7)\n", "a real (above 0, to 1)\n",
        "a time (0 to 2m; default 0)\n", "some text\n", "a switch\n"}) {
    EXPECT_THAT(help, HasSubstr(line));
  }
}

TEST_F(FlagSetTest, HelpHasGroupsInTheirOrder) {
  FlagSet flags("x", "Does x.", "--first=A [flags]");
  flags.Group("Some");
  flags.Text("first", &values_.text, "one");
  flags.Group("Others");
  flags.Text("second", &values_.text, "two");
  EXPECT_EQ(flags.Help(),
            "Does x.\n\nUsage: x --first=A [flags]\n\n"
            "Some:\n  --first   one\n\nOthers:\n  --second  two\n");
}

TEST_F(FlagSetTest, LettersStandForNames) {
  flags_.Letter('n', "number");
  flags_.Letter('o', "on");
  ASSERT_TRUE(Parse({"-n", "9", "-o"}).ok());
  EXPECT_EQ(values_.number, 9u);
  EXPECT_TRUE(values_.on);
  EXPECT_THAT(Error({"-n=8"}), HasSubstr("--number is given twice"));
  EXPECT_THAT(Error({"-n9"}), HasSubstr("'-n9' is not a flag"));
  EXPECT_THAT(Error({"-x"}), HasSubstr("'-x' is not a flag"));
  EXPECT_THAT(flags_.Help(), HasSubstr("a number (-n; 1 to 16; default 7)"));
}

TEST_F(FlagSetTest, AnArgumentThatIsNoFlag) {
  std::string argument;
  flags_.Argument("text", [&](absl::string_view text) {
    argument = std::string(text);
    return absl::OkStatus();
  });
  ASSERT_TRUE(Parse({"--number", "9", "Once upon a time", "--on"}).ok());
  EXPECT_EQ(argument, "Once upon a time");
  EXPECT_THAT(Error({"more"}), HasSubstr("'more' is one text too many; put quotes around"));
}

TEST_F(FlagSetTest, WhatFollowsTwoHyphensIsNoFlag) {
  std::string argument;
  flags_.Argument("text", [&](absl::string_view text) {
    argument = std::string(text);
    return absl::OkStatus();
  });
  ASSERT_TRUE(Parse({"--on", "--", "--number=3"}).ok());
  EXPECT_EQ(argument, "--number=3");
  EXPECT_EQ(values_.number, 7u);
  EXPECT_THAT(Error({"-"}), HasSubstr("one text too many"));
}

TEST(AsksForHelpTest, AnywhereAmongTheFlags) {
  EXPECT_TRUE(AsksForHelp({"--a=b", "--help"}));
  EXPECT_TRUE(AsksForHelp({"-h"}));
  EXPECT_FALSE(AsksForHelp({"--helper", "help", "--text=--help"}));
  EXPECT_FALSE(AsksForHelp({"--", "--help"})) << "no flag";
}

class FlagFilesTest : public FlagSetTest {
 protected:
  FlagFilesTest() {
    flags_.FlagFiles();
    flags_.LastOneCounts();
  }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(), "_", name);
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(FlagFilesTest, StandInPlaceOfTheirFlag) {
  const std::string inner = File("inner", "--number=3\n--choice=b\n");
  const std::string outer =
      File("outer", absl::StrCat("# a comment\n\n  --text=a b \n--on\n--flagfile=", inner, "\n"));
  ASSERT_TRUE(Parse({"--text=before", "--number=2", "--flagfile", outer, "--choice=a"}).ok());
  EXPECT_EQ(values_.text, "a b");
  EXPECT_EQ(values_.number, 3u);
  EXPECT_TRUE(values_.on);
  EXPECT_EQ(values_.choice, "a");
}

TEST_F(FlagFilesTest, ErrorsNameTheLine) {
  const std::string file = File("bad", "--text=a\n\n--number=17\n");
  EXPECT_THAT(Error({"--flagfile=" + file}), HasSubstr(file + ":3: --number=17: must be"));
  const std::string word = File("word", "number 3\n");
  EXPECT_THAT(Error({"--flagfile=" + word}), HasSubstr(word + ":1: 'number 3' is not a flag"));
  // The next line is not a value.
  const std::string half = File("half", "--number\n3\n");
  EXPECT_THAT(Error({"--flagfile=" + half}), HasSubstr(half + ":1: --number needs a value"));
  const std::string outer = File("outer", "--flagfile=" + file + "\n");
  EXPECT_THAT(Error({"--flagfile=" + outer}), HasSubstr(outer + ":1: " + file + ":3: "));
}

TEST_F(FlagFilesTest, AFileThatNamesItselfHasAnEnd) {
  const std::string file = File("self", "");
  std::ofstream(file) << "--flagfile=" << file << "\n";
  EXPECT_THAT(Error({"--flagfile=" + file}), HasSubstr("files that name each other"));
}

TEST_F(FlagFilesTest, WithoutThemTheFlagIsUnknown) {
  FlagSet flags("x", "");
  EXPECT_THAT(std::string(flags.Parse({"--flagfile=a"}).message()), HasSubstr("unknown flag"));
}

TEST_F(FlagSetTest, AnOptionalValueIsThereOrNot) {
  ASSERT_TRUE(Parse({"--optional", "--on"}).ok());
  EXPECT_EQ(values_.optional, "few");
  EXPECT_TRUE(values_.on);
  EXPECT_THAT(Error({"--optional"}), HasSubstr("twice"));
}

TEST_F(FlagSetTest, AnOptionalValueComesAfterAnEqualsSign) {
  EXPECT_THAT(Error({"--optional", "all"}), HasSubstr("'all' is not a flag"));
  FlagSet flags("command", "");
  flags.OptionalChoice("optional", &values_.optional, {"few", "all"}, "few", "or none");
  ASSERT_TRUE(flags.Parse({"--optional=all"}).ok());
  EXPECT_EQ(values_.optional, "all");
  FlagSet others("command", "");
  others.OptionalChoice("optional", &values_.optional, {"few", "all"}, "few", "or none");
  EXPECT_THAT(others.Parse({"--optional=true"}).message(), HasSubstr("must be one of few, all"));
  EXPECT_THAT(Error({"--choice=bb"}), HasSubstr("must be one of a, b; did you mean b?"));
}

}  // namespace
}  // namespace tandem::flags
