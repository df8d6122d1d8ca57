// Time lines of more rounds than can be looked at one by one.
#include "client/timeline.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
    for (int width = kLeastWidth; width <= kMostWidth; ++width) {
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
  EXPECT_EQ("\n" + text, R"(
timeline: 500 rounds in 5150.0 ms; the first and the slowest are shown,
--timeline=all shows all
  ▒ draft  ─ network  · slot  ┈ queue  █ device  ▓ own
  ● accepted  ○ rejected  + the target's own token

 round  at ms took  0        5       10       15      20 ms      tokens  pass
     0    0.0 10.0  ▒▒▒────██████████                            ○○○○+   #100 ×1
     1   10.0 10.0  ▒▒▒────██████████                            ●○○○+   #101 ×1
     2   20.0 10.0  ▒▒▒────██████████                            ●●○○+   #102 ×1
     3   30.0 10.0  ▒▒▒────██████████                            ●●●○+   #103 ×1
     4   40.0 10.0  ▒▒▒────██████████                            ●●●●+   #104 ×1
     5   50.0 10.0  ▒▒▒────██████████                            ○○○○+   #105 ×1
     6   60.0 10.0  ▒▒▒────██████████                            ●○○○+   #106 ×1
     7   70.0 10.0  ▒▒▒────██████████                            ●●○○+   #107 ×1
     8   80.0 10.0  ▒▒▒────██████████                            ●●●○+   #108 ×1
     9   90.0 10.0  ▒▒▒────██████████                            ●●●●+   #109 ×1
     ⋮ 39 rounds
    49  490.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #149 ×1
     ⋮ 49 rounds
    99 1005.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #199 ×1
     ⋮ 49 rounds
   149 1520.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #249 ×1
     ⋮ 49 rounds
   199 2035.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #299 ×1
     ⋮ 49 rounds
   249 2550.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #349 ×1
     ⋮ 49 rounds
   299 3065.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #399 ×1
     ⋮ 49 rounds
   349 3580.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #449 ×1
     ⋮ 49 rounds
   399 4095.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #499 ×1
     ⋮ 49 rounds
   449 4610.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #549 ×1
     ⋮ 49 rounds
   499 5125.0 25.0  ▒▒▒──────────────────────────────██████████  ●●●●+   #599 ×1
          how many                   █                        ▁
  a round's time: p50 10.0, p95 10.0, p99 25.0, longest 25.0 ms

  draft      1000.0 ms  19 %     2.00 a round  ▒▒▒▒▒▒▒▒▒▒▒
  network    1150.0 ms  22 %     2.30 a round  ────────────
  slot          0.0 ms   0 %     0.00 a round
  queue         0.0 ms   0 %     0.00 a round
  device     3000.0 ms  58 %     6.00 a round  ████████████████████████████████
  own           0.0 ms   0 %     0.00 a round
  slowest: device, 58 % of the rounds' time (6.00 ms a round)
  3.00 tokens a round; accepted 1000 of 2000 drafted; alpha-hat 0.71
)");
  EXPECT_EQ(CountRows(Plain(ManyRounds(500, 25'000), 80, /*all=*/true)), 500u);
}

TEST(ManyRoundsTest, AsManyAsMayBeAreAllShown) {
  const std::string all = Plain(ManyRounds(kMostRows, 10'000));
  EXPECT_EQ(CountRows(all), kMostRows);
  EXPECT_THAT(all, AllOf(Not(HasSubstr("⋮")), Not(HasSubstr("p50"))));
  EXPECT_LT(CountRows(Plain(ManyRounds(kMostRows + 1, 10'000))), kMostRows);
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
