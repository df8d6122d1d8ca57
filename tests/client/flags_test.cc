#include "client/flags.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
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

class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    flags_.Text("text", &values_.text, "some text");
    flags_.TextList("stop", &values_.list, "repeats");
    flags_.Choice("choice", &values_.choice, {"a", "b"}, "one of two");
    flags_.Number("number", &values_.number, 1, 16, "a number");
    flags_.Real("real", &values_.real, {0, 1, true}, "a real");
    flags_.Duration("duration", &values_.duration, "a time");
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

TEST_F(FlagsTest, BothFormsAndRepetition) {
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

TEST_F(FlagsTest, AbsentFlagsKeepTheirDefaults) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(values_.number, 7u);
  EXPECT_FALSE(values_.real.has_value());
}

TEST_F(FlagsTest, ErrorsNameFlagValueAndRange) {
  EXPECT_THAT(Error({"--number=17"}), AllOf(HasSubstr("--number=17"), HasSubstr("1 to 16")));
  EXPECT_THAT(Error({"--choice=c"}), AllOf(HasSubstr("--choice=c"), HasSubstr("a, b")));
  EXPECT_THAT(Error({"--duration=soon"}), AllOf(HasSubstr("--duration=soon"), HasSubstr("90s")));
  EXPECT_THAT(Error({"--on=maybe"}), HasSubstr("true or false"));
}

TEST_F(FlagsTest, NumbersAreWholeAndDecimal) {
  for (const char* bad :
       {"", "-1", "+1", " 1", "1 ", "0x1", "1.5", "1e1", "0", "18446744073709551616"}) {
    Values fresh;
    FlagSet flags("x", "");
    flags.Number("number", &fresh.number, 1, 16, "");
    EXPECT_FALSE(flags.Parse({std::string("--number=") + bad}).ok()) << bad;
  }
}

TEST_F(FlagsTest, RealRangesAreOpenBelowWhereTheySaySo) {
  for (const char* bad : {"0", "1.01", "-1", "nan", "inf", "x", ""}) {
    FlagSet flags("x", "");
    flags.Real("real", &values_.real, {0, 1, true}, "");
    absl::Status status = flags.Parse({std::string("--real=") + bad});
    EXPECT_THAT(std::string(status.message()), HasSubstr("above 0, to 1")) << bad;
  }
}

TEST_F(FlagsTest, NumberListsAddUp) {
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

TEST_F(FlagsTest, UnknownFlagsNameTheNearest) {
  EXPECT_THAT(Error({"--nunber=1"}), AllOf(HasSubstr("--nunber"), HasSubstr("--number?")));
  EXPECT_THAT(Error({"--quite-another"}), HasSubstr("tandem x --help"));
}

TEST_F(FlagsTest, NothingIsIgnored) {
  EXPECT_THAT(Error({"stray"}), HasSubstr("'stray'"));
  EXPECT_THAT(Error({"-n"}), HasSubstr("'-n'"));
  EXPECT_THAT(Error({"--"}), HasSubstr("'--'"));
  EXPECT_THAT(Error({"--text"}), HasSubstr("--text needs a value"));
}

TEST_F(FlagsTest, OnlyListsRepeat) {
  EXPECT_THAT(Error({"--text=a", "--text=b"}), HasSubstr("--text is given twice"));
}

TEST_F(FlagsTest, HelpNamesEveryFlag) {
  flags_.Switch("more", &values_.on, "first line\nsecond line");
  // A second line begins below the first.
  EXPECT_THAT(flags_.Help(), HasSubstr("--more      first line\n              second line\n"));
  EXPECT_THAT(flags_.Help(), AllOf(HasSubstr("Does x."), HasSubstr("tandem x [flags]"),
                                   HasSubstr("--stop      repeats"), HasSubstr("--on")));
}

TEST_F(FlagsTest, AnOptionalValueIsThereOrNot) {
  ASSERT_TRUE(Parse({"--optional", "--on"}).ok());
  EXPECT_EQ(values_.optional, "few");
  EXPECT_TRUE(values_.on);
  EXPECT_THAT(Error({"--optional"}), HasSubstr("twice"));
}

TEST_F(FlagsTest, AnOptionalValueComesAfterAnEqualsSign) {
  EXPECT_THAT(Error({"--optional", "all"}), HasSubstr("'all' is no flag"));
  FlagSet flags("command", "");
  flags.OptionalChoice("optional", &values_.optional, {"few", "all"}, "few", "or none");
  ASSERT_TRUE(flags.Parse({"--optional=all"}).ok());
  EXPECT_EQ(values_.optional, "all");
  FlagSet others("command", "");
  others.OptionalChoice("optional", &values_.optional, {"few", "all"}, "few", "or none");
  EXPECT_THAT(others.Parse({"--optional=true"}).message(), HasSubstr("must be one of few, all"));
}

}  // namespace
}  // namespace tandem::client
