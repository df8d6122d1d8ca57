#include "client/generate/timeline.h"

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client::timeline_test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Plain(const std::vector<v1::RoundRecord>& rounds, int width = 80) {
  return Timeline(rounds, {{width, /*color=*/false, /*utf8=*/true}, false, 0});
}

// This picture and the narrow one, to the letter; all else by what must hold of it.
TEST(TimelineTest, PlainInEightyColumns) {
  const std::string text = Plain(FiveRounds());
  EXPECT_EQ("\n" + text, R"(
timeline: 5 rounds in 70.7 ms
  ▒ draft  ─ network  · slot  ┈ queue  █ device  ▓ own
  ● accepted  ○ rejected  + the target's own token  ◌ past the text's end

 round at ms took  0        5        10       15 ms      tokens         pass
     0   0.4 20.0  ──────────────┈┈┈┈██████████████████  + first-round  #100 ×1
     1  20.5 16.0  ▒▒▒▒▒──────────···┈┈███████▓▓         ●●○○+          #101 ×3
     2  36.6 10.0  ▒▒▒▒───────┈██████                    ●●●●+          #102 ×12
     3  46.7 14.0  ▒▒▒▒▒▒▒▒▒▒▒───────┈┈█████             + draft-late   #103 ×1
     4  60.8 10.2  ▒▒▒▒───────┈██████                    ●●◌            #104 ×1

  draft        13.5 ms  19 %     2.70 per round  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
  network      25.0 ms  36 %     5.00 per round  ───────────────────────────────
  slot          2.0 ms   3 %     0.40 per round  ··
  queue         5.0 ms   7 %     1.00 per round  ┈┈┈┈┈┈
  device       23.5 ms  33 %     4.70 per round  █████████████████████████████
  own           1.2 ms   2 %     0.25 per round  ▓▓
  slowest: network, 36 % of the rounds' time (5.00 ms per round)
  2.40 tokens per round; accepted 9 of 11 drafted; alpha-hat 0.90
)");
}

TEST(TimelineTest, AsciiAloneIsTheSamePicture) {
  const std::string text =
      Timeline(FiveRounds(), {{80, /*color=*/false, /*utf8=*/false}, false, 0});
  EXPECT_EQ(text, absl::StrReplaceAll(Plain(FiveRounds()), {{"▒", "d"},
                                                            {"─", "-"},
                                                            {"·", "."},
                                                            {"┈", ":"},
                                                            {"█", "#"},
                                                            {"▓", "o"},
                                                            {"●", "*"},
                                                            {"○", "x"},
                                                            {"◌", "~"},
                                                            {"×", "x"}}));
  EXPECT_TRUE(std::all_of(text.begin(), text.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST(TimelineTest, NarrowLeavesOutThePassAndTheStart) {
  const std::string text = Plain(FiveRounds(), 40);
  EXPECT_EQ("\n" + text, R"(
timeline: 5 rounds in 70.7 ms
  ▒ draft  ─ network  · slot  ┈ queue
  █ device  ▓ own
  ● accepted  ○ rejected
  + the target's own token
  ◌ past the text's end

 round took  0       10 ms     tokens
     0 20.0  ──────┈┈████████  + first-r
     1 16.0  ▒▒─────·┈███▓     ●●○○+
     2 10.0  ▒▒───███          ●●●●+
     3 14.0  ▒▒▒▒▒───┈██       + draft-l
     4 10.2  ▒▒───███          ●●◌

  draft        13.5 ms  19 %
  network      25.0 ms  36 %
  slot          2.0 ms   3 %
  queue         5.0 ms   7 %
  device       23.5 ms  33 %
  own           1.2 ms   2 %
  slowest: network, 36 % of the rounds'
  time (5.00 ms per round)
  2.40 tokens per round; accepted 9 of
  11 drafted; alpha-hat 0.90
)");
}

// What is left without colours and bars.
std::string Words(std::string text) {
  static const std::regex codes("\x1b\\[[0-9;]*m");
  text = std::regex_replace(text, codes, "");
  for (const char* bar : {"▒", "─", "·", "┈", "▓", "█", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}) {
    text = absl::StrReplaceAll(text, {{bar, " "}});
  }
  static const std::regex blanks(" +");
  return std::regex_replace(text, blanks, " ");
}

TEST(TimelineTest, ColouredSaysWhatPlainSays) {
  const std::string text = Timeline(FiveRounds(), {{60, /*color=*/true, /*utf8=*/true}, false, 0});
  EXPECT_EQ(Words(text), Words(Plain(FiveRounds(), 60)));
  EXPECT_THAT(
      Readable(text),
      AllOf(HasSubstr("{36}█{} draft"), HasSubstr("{214}█{} network"), HasSubstr("{175}█{} slot"),
            HasSubstr("{166}█{} queue"), HasSubstr("{32}█{} device"), HasSubstr("{245}█{} own"),
            HasSubstr("{dim}○{} rejected"), HasSubstr("{bold}+{} the target's own token"),
            HasSubstr("{dim}◌{} past the text's end"), HasSubstr("{dim} round at ms took"),
            HasSubstr("{bold}+{} {dim}draft-late{}   {dim}#103 ×1{}\n"),
            HasSubstr("●●{dim}○○{}{bold}+{} "), HasSubstr("●●{dim}◌{} ")));
}

TEST(TimelineTest, SamplesOneAfterTheOther) {
  std::vector<v1::RoundRecord> rounds;
  for (v1::RoundRecord round : FiveRounds()) {  // as they come: mixed
    for (uint32_t sample : {1, 0}) {
      if (sample == 1 && round.number() > 2) continue;
      round.set_sample_index(sample);
      rounds.push_back(round);
    }
  }
  const std::string text = Timeline(rounds, {{80, false, true}, false, /*first_sample=*/7});
  // The rows of each sample are those of its rounds alone.
  const std::vector<std::string> alone = absl::StrSplit(Plain(FiveRounds()), '\n');
  const auto head = std::find_if(alone.begin(), alone.end(), [](const std::string& line) {
    return absl::StartsWith(line, " round at ms took");
  });
  ASSERT_GE(alone.end() - head, 6);
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat(
                  *head, "\n sample 7, 5 rounds\n", absl::StrJoin(head + 1, head + 6, "\n"),
                  "\n sample 8, 3 rounds\n", absl::StrJoin(head + 1, head + 4, "\n"), "\n\n")));
  EXPECT_THAT(text,
              AllOf(StartsWith("timeline: 8 rounds of 2 samples in 70.7 ms\n"),
                    HasSubstr("\n  draft        18.5 ms  16 %     2.31 per round  ▒"),
                    HasSubstr("\n  network      42.0 ms  36 %     5.25 per round  ─"),
                    HasSubstr("\n  slot          4.0 ms   3 %     0.50 per round  ·"),
                    HasSubstr("\n  queue         8.5 ms   7 %     1.06 per round  ┈"),
                    HasSubstr("\n  device       41.0 ms  35 %     5.12 per round  █"),
                    HasSubstr("\n  own           2.2 ms   2 %     0.28 per round  ▓"),
                    HasSubstr("  slowest: network, 36 % of the rounds' time (5.25 ms per round)\n"),
                    HasSubstr("  2.62 tokens per round; accepted 15 of 19 drafted; "
                              "alpha-hat 0.88\n")));
}

TEST(TimelineTest, NoTimeAtAll) {
  const std::string text = Plain({RoundOf(0, 0, {0, 0, 0, 0, 0, 0})});
  EXPECT_THAT(Words(text), AllOf(StartsWith("timeline: 1 round in 0.0 ms\n"),
                                 HasSubstr("\n 0 0.0 0.00 + #100 ×1\n"),
                                 HasSubstr("\n draft 0.00 ms 0 % 0.00 per round\n"),
                                 HasSubstr("\n network 0.00 ms 0 % 0.00 per round\n"),
                                 HasSubstr("\n slot 0.00 ms 0 % 0.00 per round\n"),
                                 HasSubstr("\n queue 0.00 ms 0 % 0.00 per round\n"),
                                 HasSubstr("\n device 0.00 ms 0 % 0.00 per round\n"),
                                 HasSubstr("\n own 0.00 ms 0 % 0.00 per round\n"),
                                 EndsWith("\n 1.00 tokens per round; nothing was drafted\n"),
                                 Not(HasSubstr("slowest")), Not(HasSubstr("past the text's end"))));
}

TEST(TimelineTest, NoRounds) { EXPECT_EQ(Plain({}), "timeline: no rounds\n"); }

}  // namespace
}  // namespace tandem::client::timeline_test
