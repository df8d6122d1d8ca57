// What is wrong with a scrape is seen: the control of all tests that take metrics as right because
// they could be parsed, or because they follow those before.
#include "tests/support/scrape.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] =
    "# HELP t:a_total what a is\n"
    "# TYPE t:a_total counter\n"
    "t:a_total{x=\"1\"} 3\n"
    "t:a_total{x=\"2\"} 4\n"
    "# HELP t:h what h is\n"
    "# TYPE t:h histogram\n"
    "t:h_count 5\n"
    "t:h_sum 2.5\n"
    "t:h_bucket{le=\"0.1\"} 2\n"
    "t:h_bucket{le=\"+Inf\"} 5\n"
    "# HELP g what g is\n"
    "# TYPE g gauge\n"
    "g -1e-3\n";

Scrape Good() {
  absl::StatusOr<Scrape> scrape = ParseMetrics(kGood);
  EXPECT_TRUE(scrape.ok()) << scrape.status();
  return *std::move(scrape);
}

std::string Error(absl::string_view from, absl::string_view to) {
  const std::string doctored = absl::StrReplaceAll(kGood, {{from, to}});
  EXPECT_NE(doctored, kGood);
  return std::string(ParseMetrics(doctored).status().message());
}

TEST(Scrape, FindsWhatIsWrong) {
  EXPECT_THAT(Error("# TYPE t:a_total counter\n", ""), HasSubstr("no HELP or no TYPE: t:a_total"));
  EXPECT_THAT(Error("# HELP g what g is\n", ""), HasSubstr("no HELP or no TYPE: g"));
  EXPECT_THAT(Error("# HELP g what g is\n", "# HELP g x\n# HELP g y\n"), HasSubstr("twice"));
  EXPECT_THAT(Error("# HELP g what g is\n", "# HELP t:h again\n"), HasSubstr("after its samples"));
  EXPECT_THAT(Error("g -1e-3\n", ""), HasSubstr("no samples: g"));
  EXPECT_THAT(Error("{x=\"2\"}", "{x=\"1\"}"), HasSubstr("series twice"));
  EXPECT_THAT(Error("{x=\"2\"}", "{x=2}"), HasSubstr("label"));
  EXPECT_THAT(Error("{x=\"2\"}", "{x=\"2}"), HasSubstr("not closed"));
  EXPECT_THAT(Error("{x=\"2\"} 4", "{x=\"2\"} -4"), HasSubstr("below 0"));
  EXPECT_THAT(Error("{x=\"2\"} 4", "{x=\"2\"} four"), HasSubstr("value"));
  EXPECT_THAT(Error("{x=\"2\"} 4", "{x=\"2\"} nan"), HasSubstr("value"));
  EXPECT_THAT(Error("a_total", "a"), HasSubstr("counter's name"));
  EXPECT_THAT(Error("h_bucket{le=\"0.1\"} 2", "h_bucket{le=\"0.1\"} 6"), HasSubstr("do not rise"));
  EXPECT_THAT(Error("h_count 5", "h_count 6"), HasSubstr("count is not +Inf's"));
  EXPECT_THAT(Error("t:h_sum 2.5\n", ""), HasSubstr("lacks"));
  EXPECT_THAT(Error("t:h_bucket{le=\"+Inf\"} 5\n", ""), HasSubstr("no bucket +Inf"));
  EXPECT_THAT(Error("g -1e-3\n", "g -1e-3\nother 1\n"), HasSubstr("not with its family"));
  EXPECT_FALSE(ParseMetrics("").ok());
  EXPECT_FALSE(ParseMetrics("g 1").ok());
}

TEST(Scrape, CountersNeverGoDown) {
  const Scrape before = Good();
  EXPECT_TRUE(CheckFollows(before, before).ok());
  Scrape after = before;
  after.families["t:a_total"].samples[0].value = 10;
  after.families["g"].samples[0].value = -9;
  EXPECT_TRUE(CheckFollows(before, after).ok());
  after.families["t:a_total"].samples[0].value = 2;
  EXPECT_THAT(std::string(CheckFollows(before, after).message()), HasSubstr("went down"));
  after = before;
  after.families["t:h"].samples.pop_back();
  EXPECT_THAT(std::string(CheckFollows(before, after).message()), HasSubstr("is gone"));
}

}  // namespace
}  // namespace tandem::testing
