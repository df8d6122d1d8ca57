// Time lines of more rounds than can be looked at one by one.
#include "client/generate/timeline.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Plain(const std::vector<v1::RoundRecord>& rounds, int width = 80, bool all = false) {
  return Timeline(rounds, {{width, /*color=*/false, /*utf8=*/true}, all, 0});
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_EQ(lines.back(), "") << "the last line has no end";
  lines.pop_back();
  return lines;
}

// Rows of rounds have a pass; nothing else has.
size_t CountRows(const std::string& text) {
  const std::vector<std::string> lines = Lines(text);
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return absl::StrContains(line, " #");
  }));
}

TEST(ManyRoundsTest, NoLineIsWiderThanTheTerminal) {
  std::vector<v1::RoundRecord> widest = ManyRounds(600, 400'000);
  for (v1::RoundRecord& round : widest) {
    round.set_number(round.number() + 1'000'000);
    round.set_pass_id(4'000'000'000 + round.number());
    round.set_pass_sequences(1024);
    round.set_began_us(round.began_us() + 3'600'000'000);
  }
  Drafted(16, 9, widest[0]);
  for (const auto& rounds : {FiveRounds(), ManyRounds(300, 80'000), widest}) {
    for (int width = kMinWidth; width <= kMaxWidth; ++width) {
      for (bool color : {false, true}) {
        for (const std::string& line :
             Lines(Timeline(rounds, {{width, color, /*utf8=*/true}, false, 0}))) {
          ASSERT_LE(Columns(line), width) << line;
          ASSERT_TRUE(color || !absl::StrContains(line, "\x1b")) << line;
        }
      }
    }
  }
}

TEST(ManyRoundsTest, OfManyTheFirstAndTheSlowest) {
  const std::string text = Plain(ManyRounds(500, 25'000));
  // The numbers of the rounds that are shown, and how many are left out between them.
  std::vector<int> shown;
  std::vector<std::string> gaps;
  for (const std::string& line : Lines(text)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (absl::StrContains(line, " #")) {
      int number = -1;
      EXPECT_TRUE(absl::SimpleAtoi(words[0], &number)) << line;
      shown.push_back(number);
      EXPECT_EQ(words[2], number % 50 == 49 ? "25.0" : "10.0") << line;
    } else if (!words.empty() && words[0] == "⋮") {
      gaps.push_back(absl::StrCat("after ", shown.back(), ": ", words[1], " ", words[2]));
    }
  }
  EXPECT_THAT(shown, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 49, 99, 149, 199, 249, 299, 349, 399,
                                 449, 499));
  EXPECT_THAT(gaps,
              ElementsAre("after 9: 39 rounds", "after 49: 49 rounds", "after 99: 49 rounds",
                          "after 149: 49 rounds", "after 199: 49 rounds", "after 249: 49 rounds",
                          "after 299: 49 rounds", "after 349: 49 rounds", "after 399: 49 rounds",
                          "after 449: 49 rounds"));
  // What is said of all of them, those that are left out included.
  EXPECT_THAT(
      text, AllOf(StartsWith("timeline: 500 rounds in 5150.0 ms; the first and the slowest are "
                             "shown,\n--timeline=all shows all\n"),
                  HasSubstr("\n          how many  "),
                  HasSubstr("\n  a round's time: p50 10.0, p95 10.0, p99 25.0, longest 25.0 ms\n"),
                  HasSubstr("\n  draft      1000.0 ms  19 %     2.00 per round  ▒"),
                  HasSubstr("\n  network    1150.0 ms  22 %     2.30 per round  ─"),
                  HasSubstr("\n  slot          0.0 ms   0 %     0.00 per round\n"),
                  HasSubstr("\n  queue         0.0 ms   0 %     0.00 per round\n"),
                  HasSubstr("\n  device     3000.0 ms  58 %     6.00 per round  █"),
                  HasSubstr("\n  own           0.0 ms   0 %     0.00 per round\n"),
                  HasSubstr("  slowest: device, 58 % of the rounds' time (6.00 ms per round)\n"),
                  HasSubstr("  3.00 tokens per round; accepted 1000 of 2000 drafted; "
                            "alpha-hat 0.71\n")));
  EXPECT_EQ(CountRows(Plain(ManyRounds(500, 25'000), 80, /*all=*/true)), 500u);
}

TEST(ManyRoundsTest, AsManyAsMayBeAreAllShown) {
  const std::string all = Plain(ManyRounds(kMaxRows, 10'000));
  EXPECT_EQ(CountRows(all), kMaxRows);
  EXPECT_THAT(all, AllOf(Not(HasSubstr("⋮")), Not(HasSubstr("p50"))));
  EXPECT_LT(CountRows(Plain(ManyRounds(kMaxRows + 1, 10'000))), kMaxRows);
}

TEST(ManyRoundsTest, AnOutlierDoesNotFlattenTheOthers) {
  const std::string text = Plain(ManyRounds(50, 2'000'000));
  EXPECT_THAT(text, AllOf(HasSubstr("» longer than the scale"), HasSubstr("0 2000.0  ──"),
                          HasSubstr("─»  ●●●●+")));
  // The others fill the scale.
  EXPECT_THAT(text, HasSubstr("  10.0  ▒▒▒▒▒▒▒▒─────────█████████████████████████  ○○○○+"));
}

TEST(ManyRoundsTest, ManySamplesShareTheRows) {
  std::vector<v1::RoundRecord> rounds;
  for (uint32_t sample = 0; sample < 16; ++sample) {
    for (v1::RoundRecord round : ManyRounds(60, 20'000)) {
      round.set_sample_index(sample);
      rounds.push_back(round);
    }
  }
  const std::string text = Plain(rounds);
  EXPECT_THAT(text,
              AllOf(HasSubstr("960 rounds of 16 samples"), HasSubstr(" sample 15, 60 rounds")));
  EXPECT_LE(CountRows(text), 16u * 5);
  EXPECT_GE(CountRows(text), 16u * 4);
}

}  // namespace
}  // namespace tandem::client
