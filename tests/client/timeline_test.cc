#include "client/timeline.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/example_rounds.h"

namespace tandem::client {
namespace {

std::string Plain(const std::vector<v1::RoundRecord>& rounds, int width = 80) {
  return Timeline(rounds, {{width, /*color=*/false, /*utf8=*/true}, false, 0});
}

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

  draft        13.5 ms  19 %     2.70 a round  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
  network      25.0 ms  36 %     5.00 a round  ────────────────────────────────
  slot          2.0 ms   3 %     0.40 a round  ···
  queue         5.0 ms   7 %     1.00 a round  ┈┈┈┈┈┈
  device       23.5 ms  33 %     4.70 a round  ██████████████████████████████
  own           1.2 ms   2 %     0.25 a round  ▓▓
  slowest: network, 36 % of the rounds' time (5.00 ms a round)
  2.40 tokens a round; accepted 9 of 11 drafted; alpha-hat 0.90
)");
}

TEST(TimelineTest, AsciiAlone) {
  const std::string text =
      Timeline(FiveRounds(), {{80, /*color=*/false, /*utf8=*/false}, false, 0});
  EXPECT_EQ("\n" + text, R"(
timeline: 5 rounds in 70.7 ms
  d draft  - network  . slot  : queue  # device  o own
  * accepted  x rejected  + the target's own token  ~ past the text's end

 round at ms took  0        5        10       15 ms      tokens         pass
     0   0.4 20.0  --------------::::##################  + first-round  #100 x1
     1  20.5 16.0  ddddd----------...::#######oo         **xx+          #101 x3
     2  36.6 10.0  dddd-------:######                    ****+          #102 x12
     3  46.7 14.0  ddddddddddd-------::#####             + draft-late   #103 x1
     4  60.8 10.2  dddd-------:######                    **~            #104 x1

  draft        13.5 ms  19 %     2.70 a round  ddddddddddddddddd
  network      25.0 ms  36 %     5.00 a round  --------------------------------
  slot          2.0 ms   3 %     0.40 a round  ...
  queue         5.0 ms   7 %     1.00 a round  ::::::
  device       23.5 ms  33 %     4.70 a round  ##############################
  own           1.2 ms   2 %     0.25 a round  oo
  slowest: network, 36 % of the rounds' time (5.00 ms a round)
  2.40 tokens a round; accepted 9 of 11 drafted; alpha-hat 0.90
)");
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
  time (5.00 ms a round)
  2.40 tokens a round; accepted 9 of 11
  drafted; alpha-hat 0.90
)");
}

TEST(TimelineTest, Coloured) {
  const std::string text = Timeline(FiveRounds(), {{60, /*color=*/true, /*utf8=*/true}, false, 0});
  EXPECT_EQ("\n" + Readable(text), R"(
timeline: 5 rounds in 70.7 ms
  {36}█{} draft  {214}█{} network  {175}█{} slot  {166}█{} queue  {32}█{} device  {245}█{} own
  ● accepted  {dim}○{} rejected  {bold}+{} the target's own token
  {dim}◌{} past the text's end

{dim} round at ms took  0       10 ms     tokens         pass{}
     0   0.4 20.0  {214}██████{}{214/166}▍{}{166}█{}{32}████████{}  {bold}+{} {dim}first-round{}  {dim}#100 ×1{}
     1  20.5 16.0  {36}██{}{36/214}▍{}{214}███{}{214/175}▍{}{175}█{}{166/32}▊{}{32}███{}{245}▊{}     ●●{dim}○○{}{bold}+{}          {dim}#101 ×3{}
     2  36.6 10.0  {36}█{}{36/214}▋{}{214}██{}{214/166}▊{}{166/32}▎{}{32}██{}          ●●●●{bold}+{}          {dim}#102 ×12{}
     3  46.7 14.0  {36}████{}{36/214}▉{}{214}███{}{166/32}▉{}{32}██▎{}      {bold}+{} {dim}draft-late{}   {dim}#103 ×1{}
     4  60.8 10.2  {36}██{}{214}███{}{166/32}▋{}{32}██{}{245}▎{}         ●●{dim}◌{}            {dim}#104 ×1{}

  draft        13.5 ms  19 %     2.70 a round  {36}███████{}
  network      25.0 ms  36 %     5.00 a round  {214}█████████████{}
  slot          2.0 ms   3 %     0.40 a round  {175}█{}
  queue         5.0 ms   7 %     1.00 a round  {166}███{}
  device       23.5 ms  33 %     4.70 a round  {32}████████████{}
  own           1.2 ms   2 %     0.25 a round  {245}█{}
  slowest: network, 36 % of the rounds' time (5.00 ms a
  round)
  2.40 tokens a round; accepted 9 of 11 drafted; alpha-hat
  0.90
)");
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
  EXPECT_EQ("\n" + text, R"(
timeline: 8 rounds of 2 samples in 70.7 ms
  ▒ draft  ─ network  · slot  ┈ queue  █ device  ▓ own
  ● accepted  ○ rejected  + the target's own token  ◌ past the text's end

 round at ms took  0        5        10       15 ms      tokens         pass
 sample 7, 5 rounds
     0   0.4 20.0  ──────────────┈┈┈┈██████████████████  + first-round  #100 ×1
     1  20.5 16.0  ▒▒▒▒▒──────────···┈┈███████▓▓         ●●○○+          #101 ×3
     2  36.6 10.0  ▒▒▒▒───────┈██████                    ●●●●+          #102 ×12
     3  46.7 14.0  ▒▒▒▒▒▒▒▒▒▒▒───────┈┈█████             + draft-late   #103 ×1
     4  60.8 10.2  ▒▒▒▒───────┈██████                    ●●◌            #104 ×1
 sample 8, 3 rounds
     0   0.4 20.0  ──────────────┈┈┈┈██████████████████  + first-round  #100 ×1
     1  20.5 16.0  ▒▒▒▒▒──────────···┈┈███████▓▓         ●●○○+          #101 ×3
     2  36.6 10.0  ▒▒▒▒───────┈██████                    ●●●●+          #102 ×12

  draft        18.5 ms  16 %     2.31 a round  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒
  network      42.0 ms  36 %     5.25 a round  ────────────────────────────────
  slot          4.0 ms   3 %     0.50 a round  ···
  queue         8.5 ms   7 %     1.06 a round  ┈┈┈┈┈┈
  device       41.0 ms  35 %     5.12 a round  ███████████████████████████████
  own           2.2 ms   2 %     0.28 a round  ▓▓
  slowest: network, 36 % of the rounds' time (5.25 ms a round)
  2.62 tokens a round; accepted 15 of 19 drafted; alpha-hat 0.88
)");
}

TEST(TimelineTest, NoTimeAtAll) {
  const std::string text = Plain({RoundOf(0, 0, {0, 0, 0, 0, 0, 0})});
  EXPECT_EQ("\n" + text, R"(
timeline: 1 round in 0.0 ms
  ▒ draft  ─ network  · slot  ┈ queue  █ device  ▓ own
  ● accepted  ○ rejected  + the target's own token

 round at ms took  0        0.2      0.4     0.6      0.8 ms     tokens  pass
     0   0.0 0.00                                                +       #100 ×1

  draft        0.00 ms   0 %     0.00 a round
  network      0.00 ms   0 %     0.00 a round
  slot         0.00 ms   0 %     0.00 a round
  queue        0.00 ms   0 %     0.00 a round
  device       0.00 ms   0 %     0.00 a round
  own          0.00 ms   0 %     0.00 a round
  1.00 tokens a round; nothing was drafted
)");
}

TEST(TimelineTest, NoRounds) { EXPECT_EQ(Plain({}), "timeline: no rounds\n"); }

}  // namespace
}  // namespace tandem::client
