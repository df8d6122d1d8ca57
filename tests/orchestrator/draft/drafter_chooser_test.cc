// The chooser of drafters: by itself, and on a sample of the grid of drafter_simulation.h.
// drafter_full_grid_test.cc has all of it.
#include "orchestrator/draft/choice/drafter_chooser.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/draft/drafter_simulation.h"

namespace tandem::orchestrator::drafter_chooser_test {
namespace {

// Every setting of a kind of texts, by the first word of its name.
std::vector<DrafterSetting> Sample(const std::string& kind, size_t every) {
  std::vector<DrafterSetting> sample;
  size_t i = 0;
  for (DrafterSetting& setting : DrafterGrid()) {
    if (setting.name.rfind(kind, 0) == 0 && i++ % every == 0) sample.push_back(std::move(setting));
  }
  return sample;
}

TEST(DrafterChooser, WhereOneDrafterIsBestForAllTextsItIsNearlyAsFast) {
  for (const char* kind : {"prose", "copies"}) {
    for (const DrafterSetting& setting : Sample(kind, 7)) {
      const DrafterSpeeds speeds = MeasureDrafters(setting, 40, 30, 1);
      EXPECT_GE(speeds.chosen, 0.93 * speeds.best()) << setting.name << ": " << speeds.ToString();
    }
  }
}

TEST(DrafterChooser, WhereTextsDifferItIsFasterThanEachDrafterAlone) {
  for (const DrafterSetting& setting : Sample("mixed, 256", 8)) {
    const DrafterSpeeds speeds = MeasureDrafters(setting, 20, 120, 1);
    EXPECT_GE(speeds.chosen, 1.03 * speeds.best()) << setting.name << ": " << speeds.ToString();
  }
}

TEST(DrafterChooser, FollowsATextThatChanges) {
  for (const DrafterSetting& setting : Sample("changing, 1024", 8)) {
    const DrafterSpeeds speeds = MeasureDrafters(setting, 10, 20, 1);
    EXPECT_GE(speeds.chosen, 1.0 * speeds.best()) << setting.name << ": " << speeds.ToString();
  }
}

// ---- one text, round by round ----

struct Text {
  explicit Text(const std::vector<std::string>& names,
                std::shared_ptr<CommonDrafters> with = std::make_shared<CommonDrafters>(),
                acceptance::Rule rule = acceptance::Rule::kSpeculative, uint32_t sequences_now = 1)
      : common(std::move(with)), chooser(names, rule, 0, *common), sequences(sequences_now) {}

  // A round that gave so many tokens in so many milliseconds.
  DrafterChoice Round(const std::map<uint32_t, double>& tokens, uint32_t left = 10'000,
                      std::optional<PlainCause> cause = std::nullopt, double milliseconds = 10) {
    RoundRecord round;
    round.drafter = chooser.Next(sequences, left);
    const uint32_t index = round.drafter->index;
    round.choice = LengthChoice{4};
    round.asked_tokens = 4;
    round.cause = cause;
    const bool on_trial = round.drafter->reason == DrafterReason::kTrial;
    if (on_trial && !was_on_trial) trials_began.push_back(all_rounds);
    was_on_trial = on_trial;
    if (++all_rounds > 1 && index != last) milliseconds += switch_milliseconds;
    last = index;
    owed[index] += tokens.at(index) - 1;
    if (!cause.has_value()) {
      round.accepted_tokens = static_cast<uint32_t>(owed[index]);
      owed[index] -= round.accepted_tokens;
    }
    round.decided = round.began + absl::Milliseconds(milliseconds);
    chooser.Observe(round);
    ++rounds[index];
    return *round.drafter;
  }

  const std::shared_ptr<CommonDrafters> common;
  DrafterChooser chooser;
  const uint32_t sequences;
  std::map<uint32_t, int> rounds;
  int all_rounds = 0;
  double switch_milliseconds = 0;
  std::vector<int> trials_began;  // at these rounds
  bool was_on_trial = false;
  uint32_t last = 0;
  std::map<uint32_t, double> owed;
};

TEST(DrafterChooser, FindsTheBetterOneAndKeepsIt) {
  Text text({"a", "b", "c"});
  for (int i = 0; i < 400; ++i) text.Round({{0, 1.5}, {1, 3.0}, {2, 1.2}});
  EXPECT_GT(text.rounds[1], 340);
  const DrafterChoice last = text.Round({{0, 1.5}, {1, 3.0}, {2, 1.2}});
  EXPECT_EQ(last.index, 1u);
}

TEST(DrafterChooser, ATextWithNoRestForItHasNoTrial) {
  Text text({"a", "b"});
  for (int i = 0; i < 30; ++i) EXPECT_EQ(text.Round({{0, 2.0}, {1, 3.0}}, 4).index, 0u);
  EXPECT_TRUE(text.trials_began.empty());
}

TEST(DrafterChooser, TheWaitAfterATrialThatShowsNothingDoubles) {
  Text text({"a", "b"});
  for (int i = 0; i < 2000; ++i) text.Round({{0, 2.0}, {1, 1.8}});
  const std::vector<int>& began = text.trials_began;
  ASSERT_GE(began.size(), 4u);
  for (size_t i = 2; i < began.size(); ++i) {
    EXPECT_GE(began[i] - began[i - 1], 1.5 * (began[i - 1] - began[i - 2])) << i;
  }
}

// A switch that takes as long as 50 rounds: after the first trial, 3 % of the time pay for no other
// one.
TEST(DrafterChooser, TrialsCostAShareOfTheTime) {
  Text text({"a", "b"});
  text.switch_milliseconds = 500;
  for (int i = 0; i < 2500; ++i) text.Round({{0, 2.0}, {1, 1.8}});
  EXPECT_EQ(text.trials_began.size(), 1u);
}

// Twenty texts for which the second drafter is the better one.
std::shared_ptr<CommonDrafters> LearnThatBIsBetter() {
  auto common = std::make_shared<CommonDrafters>();
  for (int i = 0; i < 20; ++i) {
    Text text({"a", "b"}, common);
    for (int round = 0; round < 60; ++round) text.Round({{0, 1.5}, {1, 3.0}});
  }
  return common;
}

TEST(DrafterChooser, ANewTextBeginsWithWhatWasBestForOthersOfItsKindAndLoad) {
  const auto common = LearnThatBIsBetter();
  const auto first = [&](acceptance::Rule rule, uint32_t sequences) {
    return Text({"a", "b"}, common, rule, sequences).Round({{0, 1.5}, {1, 3.0}});
  };
  for (int i = 0; i < 10; ++i) {
    const DrafterChoice choice = first(acceptance::Rule::kSpeculative, 1);
    EXPECT_EQ(choice.index, 1u);
    EXPECT_EQ(choice.reason, DrafterReason::kFirst);
  }
  EXPECT_EQ(first(acceptance::Rule::kGreedy, 1).index, 0u) << "nothing is known of this rule";
  EXPECT_EQ(first(acceptance::Rule::kSpeculative, 64).index, 0u) << "nor under this load";
}

TEST(DrafterChooser, SomeTextsBeginWithADrafterThatNothingIsKnownOf) {
  const auto common = LearnThatBIsBetter();
  int begun = 0, best = 0;
  for (int i = 0; i < 64; ++i) {
    Text text({"a", "b", "c"}, common);
    const DrafterChoice first = text.Round({{0, 1.5}, {1, 3.0}, {2, 5.0}});
    if (first.index == 2 && first.reason == DrafterReason::kTrial) ++begun;
    for (int round = 0; round < 20; ++round) text.Round({{0, 1.5}, {1, 3.0}, {2, 5.0}});
    if (i >= 32 && text.rounds[2] > 15) ++best;
  }
  EXPECT_GE(begun, 1);
  EXPECT_LE(begun, 12);
  EXPECT_GE(best, 28);
}

TEST(DrafterChooser, ATextThatChangesIsNoticed) {
  Text text({"a", "b"});
  for (int i = 0; i < 200; ++i) text.Round({{0, 3.0}, {1, 1.5}});
  EXPECT_EQ(text.Round({{0, 3.0}, {1, 1.5}}).index, 0u);
  int rounds = 0;
  while (text.rounds[1] < 60 && ++rounds < 400) text.Round({{0, 1.2}, {1, 3.0}});
  EXPECT_LT(rounds, 200);
}

TEST(DrafterChooser, ADraftThatFailsIsLeftForAnotherOne) {
  Text text({"a", "b"});
  while (text.rounds[0] < 60) text.Round({{0, 3.0}, {1, 1.5}});
  ASSERT_EQ(text.Round({{0, 3.0}, {1, 1.5}}).index, 0u);
  for (int i = 0; i < 2; ++i) {
    const DrafterChoice lost = text.Round({{0, 3.0}, {1, 1.5}}, 10'000, PlainCause::kDraftLost);
    EXPECT_EQ(lost.index, 0u) << "one failure is nothing yet";
  }
  const DrafterChoice other = text.Round({{0, 3.0}, {1, 1.5}});
  EXPECT_EQ(other.index, 1u);
  EXPECT_EQ(other.reason, DrafterReason::kOther);
  int rounds = 0;
  while (text.Round({{0, 3.0}, {1, 1.5}}).index != 0 && ++rounds < 200) {
  }
  EXPECT_LT(rounds, 150) << "it is tried again";
}

TEST(DrafterChooser, ADrafterThatIsRefusedNeverComesAgain) {
  Text text({"a", "b"});
  text.Round({{0, 3.0}, {1, 1.5}}, 10'000, PlainCause::kDraftRefused);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(text.Round({{0, 3.0}, {1, 1.5}}).index, 1u);
  }
}

TEST(DrafterChooser, IfAllAreRefusedItStaysWithOne) {
  Text text({"a", "b"});
  for (int i = 0; i < 50; ++i) {
    text.Round({{0, 1.0}, {1, 1.0}}, 10'000, PlainCause::kDraftRefused);
  }
  EXPECT_EQ(text.rounds[0] + text.rounds[1], 50);
  EXPECT_LE(text.rounds[0], 1);
}

// The length policy's trials, and the round that reads the text.
TEST(DrafterChooser, RoundsThatSayNothingOfADrafterDoNotCount) {
  CommonDrafters common;
  const CommonDrafters::Kind kind;
  {
    DrafterChooser chooser({"a"}, kind.rule, kind.nodes, common);
    for (int i = 0; i < 20; ++i) {
      RoundRecord round;
      round.drafter = chooser.Next(1, 10'000);
      round.choice = LengthChoice{4};
      round.choice->trial = i % 2 == 1;
      round.asked_tokens = 4;
      round.accepted_tokens = i == 0 || round.choice->trial ? 0 : 3;
      round.decided = round.began + absl::Milliseconds(10);
      chooser.Observe(round);
    }
  }
  const DrafterSums sums = common.Get(kind, "a").sums;
  EXPECT_EQ(sums.rounds, 8);
  EXPECT_EQ(sums.tokens, 32);
}

TEST(CommonDrafters, AreBounded) {
  CommonDrafters common;
  const CommonDrafters::Kind kind;
  for (size_t i = 0; i <= CommonDrafters::kMaxKnown; ++i) {
    common.AddText(kind, std::to_string(i), {1, 2, 0.01, 4});
  }
  EXPECT_EQ(common.Get(kind, "0").sums.tokens, 2);
  EXPECT_EQ(common.Get(kind, std::to_string(CommonDrafters::kMaxKnown)).sums.rounds, 0);
}

}  // namespace
}  // namespace tandem::orchestrator::drafter_chooser_test
