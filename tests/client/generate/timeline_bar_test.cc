#include "client/generate/timeline_bar.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/generate/timeline_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr TerminalStyle kPlain{80, /*color=*/false, /*utf8=*/true};
constexpr TerminalStyle kColor{80, /*color=*/true, /*utf8=*/true};

v1::Stages Times(const StageTimes& times) { return RoundOf(0, 0, times).stages(); }

// Without the blanks at its end.
std::string Drawn(const std::string& bar) { return bar.substr(0, bar.find_last_not_of(' ') + 1); }

// The eighths of a column that each stage has in a coloured bar.
std::map<Stage, int> Eighths(const std::string& bar) {
  static const auto& lengths =
      *new std::vector<std::string>{"▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  std::map<std::string, Stage> stages;  // by colour, as the legend has it
  for (Stage stage : kStages) {
    const std::string swatch = Readable(Swatch(stage, 1, kColor));
    stages[swatch.substr(1, swatch.find('}') - 1)] = stage;
  }
  EXPECT_EQ(stages.size(), kStageCount) << "two stages of one colour";
  std::map<Stage, int> eighths;
  std::vector<std::string> colors;  // of what is drawn, and of what is behind it
  const std::string text = Readable(bar);
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '{') {
      const size_t end = text.find('}', at);
      colors = absl::StrSplit(text.substr(at + 1, end - at - 1), '/', absl::SkipEmpty());
      at = end + 1;
    } else if (text[at] == ' ') {
      ++at;
    } else {
      const auto length = std::find(lengths.begin(), lengths.end(), text.substr(at, 3));
      EXPECT_TRUE(length != lengths.end() && !colors.empty()) << text;
      if (length == lengths.end() || colors.empty()) return {};
      const int drawn = static_cast<int>(length - lengths.begin()) + 1;
      eighths[stages.at(colors[0])] += drawn;
      if (colors.size() > 1) eighths[stages.at(colors[1])] += 8 - drawn;
      at += 3;
    }
  }
  return eighths;
}

TEST(TimelineBarTest, EachStageHasItsOwnPattern) {
  const Scale scale{12, 12'000, false};
  const v1::Stages stages = Times({2000, 2000, 2000, 2000, 2000, 2000});
  for (const TerminalStyle& style : {kPlain, TerminalStyle{80, false, false}, kColor}) {
    std::string swatches;  // as the legend has them
    std::set<std::string> different;
    for (Stage stage : kStages) {
      swatches += Swatch(stage, 2, style);
      different.insert(Swatch(stage, 2, style));
    }
    EXPECT_EQ(Bar(stages, scale, style), swatches);
    EXPECT_EQ(different.size(), kStageCount);
  }
}

TEST(TimelineBarTest, LengthsAreOnTheScale) {
  const Scale scale{10, 20'000, false};
  const std::pair<uint64_t, int> lengths[] = {{20'000, 10}, {10'000, 5}, {10'900, 5},
                                              {11'000, 6},  {1, 1},      {0, 0}};
  for (const auto& [time, columns] : lengths) {
    const std::string bar = Bar(Times({0, 0, 0, 0, time, 0}), scale, kPlain);
    EXPECT_EQ(Columns(Drawn(bar)), columns) << time;
    EXPECT_EQ(Columns(bar), scale.columns) << time;
  }
}

TEST(TimelineBarTest, ColouredBarsAreExactToAnEighth) {
  const Scale scale{12, 96'000, false};  // 1 ms an eighth
  // Where no stage is shorter than a column, a column has two at most, and each has what it took.
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::map<Stage, int> times;
    v1::Stages stages;
    const auto take = [&](Stage stage, void (v1::Stages::*set)(uint64_t)) {
      if (random() % 4 == 0) return;
      times[stage] = 8 + static_cast<int>(random() % 9);
      (stages.*set)(1000u * times[stage]);
    };
    take(Stage::kDraft, &v1::Stages::set_draft_us);
    take(Stage::kNetwork, &v1::Stages::set_network_us);
    take(Stage::kSlot, &v1::Stages::set_slot_us);
    take(Stage::kQueue, &v1::Stages::set_queue_us);
    take(Stage::kDevice, &v1::Stages::set_device_us);
    take(Stage::kOwn, &v1::Stages::set_own_us);
    const std::string bar = Bar(stages, scale, kColor);
    EXPECT_EQ(Eighths(bar), times) << Readable(bar);
    EXPECT_FALSE(absl::StrContains(Drawn(bar), ' ')) << Readable(bar);
    EXPECT_EQ(Columns(bar), scale.columns) << Readable(bar);
  }
  // Of three in a column the shortest has to give way: the eighth of the queue, to the device.
  EXPECT_THAT(Eighths(Bar(Times({2000, 0, 0, 1000, 13'000, 0}), scale, kColor)),
              ElementsAre(Pair(Stage::kDraft, 2), Pair(Stage::kDevice, 14)));
  EXPECT_THAT(Eighths(Bar(Times({0, 1, 0, 0, 0, 0}), scale, kColor)),
              ElementsAre(Pair(Stage::kNetwork, 1)))
      << "never invisible";
}

TEST(TimelineBarTest, ALongerBarKeepsItsProportionsAndSaysSo) {
  const Scale scale{11, 11'000, true};
  const v1::Stages stages = Times({50'000, 0, 0, 0, 50'000, 0});
  for (const TerminalStyle& style : {kPlain, kColor}) {
    EXPECT_EQ(Bar(stages, scale, style),
              absl::StrCat(Swatch(Stage::kDraft, 5, style), Swatch(Stage::kDevice, 5, style),
                           ClippedMark(style)));
  }
  EXPECT_EQ(ClippedMark(kPlain), "»");
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

// Heights in proportion, rounded up: what is there is seen.
TEST(TimelineBarTest, HistogramShowsWhatIsThere) {
  const Scale scale{5, 50, false};
  const auto heights = [&](const std::vector<uint64_t>& times, const TerminalStyle& style,
                           const std::vector<std::string>& marks) {
    std::string rest = Histogram(times, scale, style);
    EXPECT_EQ(Columns(rest), scale.columns);
    std::vector<size_t> found;
    while (!rest.empty()) {
      size_t height = 0;
      while (height < marks.size() && !absl::StartsWith(rest, marks[height])) ++height;
      EXPECT_LT(height, marks.size()) << rest;
      if (height == marks.size()) break;
      found.push_back(height);
      rest.erase(0, marks[height].size());
    }
    return found;
  };
  const std::vector<uint64_t> some = {0, 12, 12, 12, 12, 12, 12, 12, 12, 35, 35, 900};
  const std::vector<std::string> blocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  EXPECT_THAT(heights(some, kPlain, blocks), ElementsAre(1, 8, 0, 2, 1));
  EXPECT_THAT(heights(some, {80, false, false}, {" ", ".", ":", "-", "=", "+", "*", "#", "@"}),
              ElementsAre(1, 8, 0, 2, 1));
  EXPECT_THAT(heights({}, kPlain, blocks), ElementsAre(0, 0, 0, 0, 0));
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
  round.set_accepted_tokens(9);  // of a service that makes no sense
  EXPECT_EQ(TokensCell(round, kPlain), "●◌◌◌◌◌◌◌◌");
}

}  // namespace
}  // namespace tandem::client
