#include "absl/strings/str_split.h"
#include "client/theory/options.h"
#include "client/theory/report.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json.h"

namespace tandem::client {
namespace {

using base::JsonValue;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Parsed {
  TheoryOptions options;
  absl::Status status;
};

Parsed Parse(std::vector<std::string> args) {
  Parsed parsed;
  flags::FlagSet flags("tandem theory", "");
  parsed.options.AddTo(flags);
  parsed.status = flags.Parse(args);
  if (parsed.status.ok()) parsed.status = parsed.options.Validate();
  return parsed;
}

std::string Tables(std::vector<std::string> args) {
  const Parsed parsed = Parse(std::move(args));
  EXPECT_TRUE(parsed.status.ok()) << parsed.status;
  return TheoryTables(MakeTheoryReport(parsed.options));
}

JsonValue Object(std::vector<std::string> args) {
  return tandem::testing::ParseJson(TheoryJson(MakeTheoryReport(Parse(std::move(args)).options)));
}

std::string Error(std::vector<std::string> args) {
  const absl::Status status = Parse(std::move(args)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(TheoryCommandTest, WithoutFlagsItIsThePapersTable1) {
  EXPECT_THAT(Tables({}), AllOf(HasSubstr("table 1"),
                                HasSubstr("     0.6      2      1.96     1.96x       1.53x"),
                                HasSubstr("     0.7      3      2.53     2.53x       1.58x"),
                                HasSubstr("     0.8      2      2.44     2.44x       1.23x"),
                                HasSubstr("     0.8      5      3.69     3.69x       1.63x"),
                                HasSubstr("     0.9      2      2.71     2.71x       1.11x"),
                                HasSubstr("     0.9     10      6.86     6.86x       1.60x")));
}

TEST(TheoryCommandTest, FlagsReachTheFormulas) {
  const JsonValue json =
      Object({"--alpha=0.75", "--gamma=8", "--c=0.015", "--c-hat=0.02", "--draft-reads=0.1"});
  ASSERT_EQ(json["rows"].size(), 1u);
  const JsonValue row = json["rows"][0];
  EXPECT_EQ(row["gamma"].Number(), 8);
  EXPECT_NEAR(row["tokens"].Number().value(), 3.6996612548828125, 1e-12);
  EXPECT_NEAR(row["speed"].Number().value(), 3.6996612548828125 / 1.12, 1e-12);
  EXPECT_NEAR(row["operations"].Number().value(), 9.16 / 3.6996612548828125, 1e-12);
  EXPECT_NEAR(row["reads_saved"].Number().value(), 3.6996612548828125 / 1.8, 1e-12);
  EXPECT_FALSE(json.Has("rounds"));
}

TEST(TheoryCommandTest, TheBestGammaIsLookedForUpToALimit) {
  EXPECT_EQ(Object({"--alpha=0.8", "--c=0.05"})["best"][0]["gamma"].Number(), 8);
  EXPECT_EQ(Object({"--alpha=0.8", "--c=0.05", "--max-gamma=3"})["best"][0]["gamma"].Number(), 3);
  const JsonValue never = Object({"--alpha=0.3", "--c=0.4"})["best"][0];
  EXPECT_EQ(never["gamma"].Number(), 0);
  EXPECT_EQ(never["speed"].Number(), 1);
  EXPECT_TRUE(never.Has("at_least") && never["at_least"].IsNull());
}

TEST(TheoryCommandTest, WhatIsInfiniteIsNull) {
  const JsonValue best = Object({"--alpha=1"})["best"][0];
  EXPECT_TRUE(best.Has("bound") && best["bound"].IsNull());
  EXPECT_TRUE(best.Has("oracle") && best["oracle"].IsNull());
  EXPECT_THAT(Tables({"--alpha=1"}), HasSubstr("inf"));
}

// alpha = 0.7, K = 4, 5 ms per draft token, a round trip of 1 ms, passes of 60 ms: 2.05 times.
TEST(TheoryCommandTest, RoundsOfASplitDraft) {
  const std::vector<std::string> args = {"--alpha=0.7", "--gamma=0,5", "--draft-us=5000",
                                         "--rtt-us=1000", "--cost-curve=1:60000,17:60000"};
  EXPECT_THAT(Tables(args),
              AllOf(HasSubstr("     0.7      4      2.77       81000.0     2.05x *\n"),
                    HasSubstr("     0.7      0      1.00       60000.0     1.00x\n")));
  // Zero, the best one and five, in their order.
  const JsonValue rounds = Object(args)["rounds"];
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[0]["speed"].Number(), 1);
  EXPECT_EQ(rounds[1]["draft_tokens"].Number(), 4);
  EXPECT_EQ(rounds[1]["best"].Bool(), true);
  EXPECT_EQ(rounds[2]["best"].Bool(), false);
  EXPECT_GT(rounds[1]["speed"].Number(), rounds[2]["speed"].Number());
}

TEST(TheoryCommandTest, BlocksPreparedInAdvanceHaveALineOfTheirOwn) {
  const std::vector<std::string> args = {"--target-ms=7", "--rtt-ms=0.5", "--alpha=0.75",
                                         "--draft-ms=3"};
  EXPECT_THAT(Tables(args), HasSubstr("\n  with blocks prepared for 2 outcomes: best K 1, 1.51x"));
  std::vector<std::string> dear = args;
  dear.push_back("--draft-row=1");
  EXPECT_THAT(Tables(dear), HasSubstr("\n  with blocks prepared for 1 outcomes: best K 1, 1.44x"));
  dear.push_back("--json");
  EXPECT_EQ(Object(dear)["verdicts"][0]["prepared"]["outcomes"].Number(), 1);
}

TEST(TheoryCommandTest, AFarTargetGoesOnByItself) {
  const std::vector<std::string> args = {"--target-ms=25", "--target-rtt-ms=40", "--rtt-ms=0.5",
                                         "--alpha=0.75", "--draft-ms=1"};
  const std::string tables = Tables(args);
  EXPECT_THAT(tables, HasSubstr("\n  with blocks prepared for 16 outcomes: best K 12, 3.64x"));
  EXPECT_THAT(tables, HasSubstr("\n  with a target that goes on by itself, for 16"));
  EXPECT_THAT(tables, HasSubstr("for 5 rows, round trip 40 ms\n"));
  std::vector<std::string> json = args;
  json.push_back("--json");
  const JsonValue verdict = Object(json)["verdicts"][0];
  EXPECT_GT(*verdict["chained"]["speed"].Number(), 4.5);
  EXPECT_LT(*verdict["prepared"]["speed"].Number(), 4);
  json[1] = "--target-rtt-us=0";
  const JsonValue near = Object(json)["verdicts"][0];
  EXPECT_EQ(near["chained"]["speed"].Number(), near["prepared"]["speed"].Number());
  EXPECT_THAT(Error({"--target-rtt-ms=5"}), HasSubstr("--target-rtt-ms"));
}

// The first line says what follows, and no table leaves out what was given.
TEST(TheoryCommandTest, TheVerdictComesFirst) {
  const auto first_line = [](std::vector<std::string> args) {
    const std::string text = Tables(std::move(args));
    return text.substr(0, text.find('\n'));
  };
  const std::string target = "--target-ms=7", rtt = "--rtt-ms=0.5", alpha = "--alpha=0.75";
  EXPECT_EQ(first_line({target, rtt, alpha, "--draft-ms=5"}),
            "alpha 0.75: best K 0 (no draft), 1.00x; break-even draft time 4.75 ms/token");
  EXPECT_EQ(first_line({target, rtt, alpha, "--draft-ms=3"}),
            "alpha 0.75: best K 2, 1.20x; break-even draft time 4.75 ms/token");
  EXPECT_EQ(first_line({target, rtt, alpha, "--draft-ms=1"}),
            "alpha 0.75: best K 4, 1.86x; break-even draft time 4.75 ms/token");
  EXPECT_EQ(first_line({"--target-ms=25", rtt, alpha, "--draft-us=5000"}),
            "alpha 0.75: best K 3, 1.69x; break-even draft time 18.25 ms/token");
  // Rows that have their price: 0.5 ms each, so K = 3 takes 3 + 0.5 + 8.5 ms for 2.734 tokens.
  EXPECT_EQ(first_line({"--cost-curve=1:7000,17:15000", rtt, alpha, "--draft-ms=1"}),
            "alpha 0.75: best K 3, 1.60x; break-even draft time 4.25 ms/token");
  // Each row as dear as a pass.
  EXPECT_EQ(first_line({"--cost-curve=1:7000,17:119000", rtt, alpha, "--draft-ms=0"}),
            "alpha 0.75: best K 0 (no draft), 1.00x; no draft pays, however fast");
  EXPECT_EQ(first_line({alpha, "--c=0.5"}), "alpha 0.75: best K 1, 1.17x; break-even c 0.75");
  EXPECT_THAT(Tables({target, alpha}), HasSubstr("(not given: --draft-ms)"));
  EXPECT_THAT(Tables({alpha}), HasSubstr("for a draft that takes no time"));
  EXPECT_THAT(Tables({target, rtt, alpha, "--draft-ms=5"}), Not(HasSubstr("3.97x")));
  const JsonValue verdict = Object({target, rtt, alpha, "--draft-ms=3"})["verdicts"][0];
  EXPECT_EQ(verdict["draft_tokens"].Number(), 2);
  EXPECT_NEAR(verdict["speed"].Number().value(), 2.3125 * 7 / 13.5, 1e-9);
  EXPECT_NEAR(verdict["break_even_draft_us"].Number().value(), 4750, 1e-6);
}

v1::DescribeReply Measured() {
  v1::DescribeReply reply;
  v1::Peer& target = *reply.add_peers();
  target.set_role(v1::Peer::ROLE_TARGET);
  target.set_ready(true);
  for (const auto& [rows, us] : {std::pair(1, 7000), std::pair(2, 6990), std::pair(17, 7000)}) {
    v1::CostPoint& point = *target.mutable_load()->add_cost_curve();
    point.set_rows(static_cast<uint32_t>(rows));
    point.set_microseconds(static_cast<uint32_t>(us));
  }
  v1::SpeculationTotals& totals = *reply.mutable_speculation();
  totals.set_accepted_tokens(300);
  totals.set_rejected_rounds(100);
  totals.set_draft_tokens(500);
  totals.set_draft_us(500 * 3000);
  return reply;
}

TEST(TheoryCommandTest, WhatAnOrchestratorMeasured) {
  TheoryOptions options = Parse({"--orchestrator=h:1", "--rtt-ms=0.5"}).options;
  ASSERT_TRUE(options.TakeFrom(Measured()).ok());
  EXPECT_THAT(TheoryTables(MakeTheoryReport(options)),
              StartsWith("alpha 0.75: best K 2, 1.20x; break-even draft time 4.75 ms/token\n"));
  // Before its first report a target has what it told when it was connected.
  v1::DescribeReply fresh = Measured();
  v1::Peer& target = *fresh.mutable_peers(0);
  *target.mutable_welcome()->mutable_cost_curve() = target.load().cost_curve();
  target.clear_load();
  options = Parse({"--orchestrator=h:1", "--rtt-ms=0.5"}).options;
  ASSERT_TRUE(options.TakeFrom(fresh).ok());
  EXPECT_THAT(TheoryTables(MakeTheoryReport(options)), StartsWith("alpha 0.75: best K 2, 1.20x"));
  // What a flag gives counts.
  options = Parse({"--orchestrator=h:1", "--rtt-ms=0.5", "--draft-ms=1"}).options;
  ASSERT_TRUE(options.TakeFrom(Measured()).ok());
  EXPECT_THAT(TheoryTables(MakeTheoryReport(options)), StartsWith("alpha 0.75: best K 4, 1.86x"));
}

TEST(TheoryCommandTest, WhatAnOrchestratorHasNotMeasuredIsNamed) {
  const auto error = [](const v1::DescribeReply& reply) {
    TheoryOptions options = Parse({"--orchestrator=h:1"}).options;
    return std::string(options.TakeFrom(reply).message());
  };
  v1::DescribeReply reply = Measured();
  reply.mutable_peers(0)->set_ready(false);
  EXPECT_THAT(error(reply), HasSubstr("--target-ms"));
  reply = Measured();
  reply.clear_speculation();
  EXPECT_THAT(error(reply), HasSubstr("--alpha"));
  reply = Measured();
  reply.mutable_speculation()->set_draft_tokens(0);
  EXPECT_THAT(error(reply), HasSubstr("--draft-ms"));
}

TEST(TheoryCommandTest, TablesFitEightyColumns) {
  const std::string tables =
      Tables({"--alpha=0.0001,0.12345678,1", "--gamma=1000,0",
              "--cost-curve=1:1000000.5,9:99999999", "--draft-us=123456.7", "--rtt-us=12345.6",
              "--target-rtt-us=12345.6"}) +
      Tables({"--alpha=0.0001,0.12345678,1", "--gamma=1000,0", "--c=0.015", "--c-hat=33.25"});
  for (absl::string_view line : absl::StrSplit(tables, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

TEST(TheoryCommandTest, BadFlagsAreNamedWithTheirRange) {
  const std::pair<const char*, const char*> bad[] = {{"--alpha=1.1", "0 to 1"},
                                                     {"--alpha=0.5,", "0 to 1"},
                                                     {"--alpha=nan", "0 to 1"},
                                                     {"--gamma=1001", "0 to 1000"},
                                                     {"--gamma=x", "0 to"},
                                                     {"--c=-1", "0 to 100"},
                                                     {"--c-hat=x", "0 to 100"},
                                                     {"--draft-reads=101", "0 to 100"},
                                                     {"--max-gamma=0", "1 to 1000"},
                                                     {"--cost-curve=0:5", "at least 1"},
                                                     {"--cost-curve=1:0", "rows"},
                                                     {"--cost-curve=1", "rows"},
                                                     {"--cost-curve=2:5,1:6", "must rise"},
                                                     {"--cost-curve=1:5,2:4", "must not fall"},
                                                     {"--draft-us=x", "0 to 1e+12"},
                                                     {"--draft-ms=-1", "0 to 1e+09"},
                                                     {"--target-ms=1e308", "above 0, to 1e+09"},
                                                     {"--target-ms=0", "above 0"}};
  for (const auto& [flag, range] : bad) {
    EXPECT_THAT(Error({flag}), AllOf(HasSubstr(flag), HasSubstr(range))) << flag;
  }
}

TEST(TheoryCommandTest, FlagsThatDoNotGoTogetherAreRefused) {
  EXPECT_THAT(Error({"--draft-us=5"}), AllOf(HasSubstr("--draft-us"), HasSubstr("--target-ms")));
  EXPECT_THAT(Error({"--rtt-ms=5"}), AllOf(HasSubstr("--rtt-ms"), HasSubstr("--cost-curve")));
  EXPECT_THAT(Error({"--target-ms=7", "--cost-curve=1:7"}), HasSubstr("give one"));
  EXPECT_THAT(Error({"--target-ms=7", "--draft-ms=5", "--draft-us=5"}),
              AllOf(HasSubstr("--draft-us=5"), HasSubstr("other unit")));
  EXPECT_THAT(Error({"--target-ms=7", "--c=0.5"}),
              AllOf(HasSubstr("--c=0.5"), HasSubstr("--draft-ms")));
  EXPECT_THAT(Error({"--cost-curve=1:7", "--c-hat=0.5"}), HasSubstr("--c-hat=0.5"));
  EXPECT_THAT(Error({"--token-file=f"}), HasSubstr("--orchestrator"));
  EXPECT_THAT(Error({"--orchestrator=x"}), HasSubstr("--orchestrator"));
}

TEST(TheoryCommandTest, CostCurve) {
  const auto points = ParseCostCurve("1:2100,5:2700.5");
  ASSERT_TRUE(points.ok());
  EXPECT_THAT(*points,
              ElementsAre(theory::PassTime::Point{1, 2100}, theory::PassTime::Point{5, 2700.5}));
}

}  // namespace
}  // namespace tandem::client
