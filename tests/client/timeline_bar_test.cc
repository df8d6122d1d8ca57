#include "client/timeline_bar.h"

#include "client/timeline_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;

constexpr TerminalStyle kPlain{80, /*color=*/false, /*utf8=*/true};
constexpr TerminalStyle kColor{80, /*color=*/true, /*utf8=*/true};

v1::Stages Times(const StageTimes& times) { return RoundOf(0, 0, times).stages(); }

TEST(TimelineBarTest, EachStageHasItsOwnPattern) {
  const Scale scale{12, 12'000, false};
  const v1::Stages stages = Times({2000, 2000, 2000, 2000, 2000, 2000});
  EXPECT_EQ(Bar(stages, scale, kPlain), "▒▒──··┈┈██▓▓");
  EXPECT_EQ(Bar(stages, scale, {80, false, false}), "dd--..::##oo");
  EXPECT_EQ(Readable(Bar(stages, scale, kColor)),
            "{36}██{}{214}██{}{175}██{}{166}██{}{32}██{}{245}██{}");
}

TEST(TimelineBarTest, LengthsAreOnTheScale) {
  const Scale scale{10, 20'000, false};
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 20'000, 0}), scale, kPlain), "██████████");
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 10'000, 0}), scale, kPlain), "█████     ");
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 10'900, 0}), scale, kPlain), "█████     ");
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 11'000, 0}), scale, kPlain), "██████    ");
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 1, 0}), scale, kPlain), "█         ") << "never invisible";
  EXPECT_EQ(Bar(Times({0, 0, 0, 0, 0, 0}), scale, kPlain), "          ");
}

TEST(TimelineBarTest, ColouredBarsAreExactToAnEighth) {
  const Scale scale{4, 32'000, false};  // 1 ms an eighth
  EXPECT_EQ(Readable(Bar(Times({0, 0, 0, 0, 11'000, 0}), scale, kColor)), "{32}█▍{}  ");
  // Two stages share a column; and the end of the bar shares one with nothing.
  EXPECT_EQ(Readable(Bar(Times({3000, 9000, 0, 0, 0, 0}), scale, kColor)), "{36/214}▍{}{214}▌{}  ");
  // Of three in a column the shortest has to give way: the eighth of the queue, to the device.
  EXPECT_EQ(Readable(Bar(Times({2000, 0, 0, 1000, 13'000, 0}), scale, kColor)),
            "{36/32}▎{}{32}█{}  ");
  EXPECT_EQ(Readable(Bar(Times({0, 1, 0, 0, 0, 0}), scale, kColor)), "{214}▏{}   ");
}

TEST(TimelineBarTest, ALongerBarKeepsItsProportionsAndSaysSo) {
  const Scale scale{11, 11'000, true};
  EXPECT_EQ(Bar(Times({50'000, 0, 0, 0, 50'000, 0}), scale, kPlain), "▒▒▒▒▒█████»");
  EXPECT_EQ(Readable(Bar(Times({50'000, 0, 0, 0, 50'000, 0}), scale, kColor)),
            "{36}█████{}{32}█████{}{bold}»{}");
}

TEST(TimelineBarTest, ScaleEndsWithTheLongestOfTheUsual) {
  EXPECT_EQ(ScaleFor({10, 20, 30}, 40).longest, 30);
  EXPECT_FALSE(ScaleFor({10, 20, 30}, 40).clipped);
  std::vector<uint64_t> times(20, 100);
  times[3] = 250;
  times[7] = 9000;
  EXPECT_EQ(ScaleFor(times, 40).longest, 250);
  EXPECT_TRUE(ScaleFor(times, 40).clipped);
  EXPECT_GT(ScaleFor({}, 40).longest, 0);
  EXPECT_GT(ScaleFor({0, 0}, 40).longest, 0);
  EXPECT_EQ(ScaleFor({0, 0, 7}, 40).longest, 7);
}

TEST(TimelineBarTest, AxisHasRoundNumbersWhereTheyAre) {
  EXPECT_EQ(Axis({35, 35'000, false}), "0         10        20        30 ms");
  EXPECT_EQ(Axis({34, 34'000, false}), "0         10        20        30");
  EXPECT_EQ(Axis({40, 800, false}), "0         0.2       0.4       0.6 ms");
  EXPECT_EQ(Axis({16, 800'000, false}), "0         500 ms");
  EXPECT_EQ(Axis({4, 1000, false}), "0 ms");
  EXPECT_EQ(Axis({1, 1000, false}), "0");
}

TEST(TimelineBarTest, HistogramShowsWhatIsThere) {
  const Scale scale{5, 50, false};
  EXPECT_EQ(Histogram({0, 12, 12, 12, 12, 12, 12, 12, 12, 35, 35, 900}, scale, kPlain), "▁█ ▂▁");
  EXPECT_EQ(Histogram({0, 12, 12, 12, 12, 12, 12, 12, 12, 35, 35, 900}, scale, {80, false, false}),
            ".@ :.");
  EXPECT_EQ(Histogram({}, scale, kPlain), "     ");
}

TEST(TimelineBarTest, FirstAndSlowestRows) {
  EXPECT_THAT(ChooseRows({5, 1, 1}, 3), ElementsAre(0, 1, 2));
  std::vector<uint64_t> times(20, 10);
  times[9] = 30;
  times[15] = 20;
  EXPECT_THAT(ChooseRows(times, 8), ElementsAre(0, 1, 9, 15));
  times[3] = 50;  // a gap of one is filled
  EXPECT_THAT(ChooseRows(times, 8), ElementsAre(0, 1, 2, 3, 9));
  times[18] = 60;  // and that at the end
  EXPECT_THAT(ChooseRows(times, 8), ElementsAre(0, 1, 2, 3, 18, 19));
}

TEST(TimelineBarTest, Tokens) {
  v1::RoundRecord round = RoundOf(0, 0, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(TokensCell(round, kPlain), "+");
  round.set_cause("off");
  EXPECT_EQ(TokensCell(round, kPlain), "+ off");
  round.set_tokens(0);  // the text ended before it
  EXPECT_EQ(TokensCell(round, kPlain), "off");
  round.clear_cause();
  Drafted(5, 3, round);
  EXPECT_EQ(TokensCell(round, kPlain), "●●●○○+");
  EXPECT_EQ(TokensCell(round, {80, false, false}), "***xx+");
  round.set_tokens(3);  // the text ends with the last accepted one
  EXPECT_EQ(TokensCell(round, kPlain), "●●●○○");
  round.set_tokens(1);
  EXPECT_EQ(TokensCell(round, kPlain), "●◌◌○○");
  round.set_accepted(9);  // of a service that makes no sense
  EXPECT_EQ(TokensCell(round, kPlain), "●◌◌◌◌◌◌◌◌");
}

}  // namespace
}  // namespace tandem::client
