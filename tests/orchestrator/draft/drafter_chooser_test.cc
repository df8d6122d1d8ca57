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
      const DrafterSpeeds speeds = MeasureDrafters(setting, 20, 30, 1);
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
  explicit Text(std::vector<std::string> names,
                std::shared_ptr<DrafterHistory> with = std::make_shared<DrafterHistory>())
      : history(std::move(with)), chooser(std::move(names), history) {}

  // A round that gave so many tokens in so many milliseconds.
  DrafterChoice Round(const std::map<uint32_t, double>& tokens, uint32_t left = 10'000,
                      std::optional<PlainCause> cause = std::nullopt, double milliseconds = 10) {
    RoundRecord round;
    round.drafter = chooser.Next(1, left);
    const uint32_t index = round.drafter->index;
    round.choice = LengthChoice{4};
    round.asked_tokens = 4;
    round.cause = cause;
    owed += tokens.at(index) - 1;
    if (!cause.has_value()) {
      round.accepted_tokens = static_cast<uint32_t>(owed);
      owed -= round.accepted_tokens;
    }
    round.decided = round.began + absl::Milliseconds(milliseconds);
    chooser.Observe(round);
    ++rounds[index];
    if (round.drafter->reason == DrafterReason::kTrial) ++trials;
    return *round.drafter;
  }

  std::shared_ptr<DrafterHistory> history;
  DrafterChooser chooser;
  std::map<uint32_t, int> rounds;
  int trials = 0;
  double owed = 0;
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
  EXPECT_EQ(text.trials, 0);
}

TEST(DrafterChooser, TrialsThatShowNothingBecomeRare) {
  Text text({"a", "b"});
  for (int i = 0; i < 1000; ++i) text.Round({{0, 2.0}, {1, 1.5}});
  EXPECT_GE(text.trials, 3);
  EXPECT_LE(text.trials, 90);
}

TEST(DrafterChooser, ANewTextBeginsWithWhatWasBestForOthers) {
  auto history = std::make_shared<DrafterHistory>();
  for (int i = 0; i < 20; ++i) {
    Text text({"a", "b"}, history);
    for (int round = 0; round < 60; ++round) text.Round({{0, 1.5}, {1, 3.0}});
  }
  int best = 0;
  for (int i = 0; i < 20; ++i) {
    Text text({"a", "b"}, history);
    const DrafterChoice first = text.Round({{0, 1.5}, {1, 3.0}});
    if (first.index == 1 && first.reason == DrafterReason::kFirst) ++best;
  }
  EXPECT_GE(best, 18) << "some begin with the other, to learn";
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
  for (int i = 0; i < 2; ++i) text.Round({{0, 3.0}, {1, 1.5}}, 10'000, PlainCause::kDraftLost);
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

TEST(DrafterHistory, IsBoundedAndKeepsLoadsApart) {
  DrafterHistory history;
  history.AddText("a", 1, 3, 0);
  history.AddRound("a", 1, 0.01);
  history.AddText("a", 64, 2, 0);
  history.AddRound("a", 64, 0.05);
  EXPECT_DOUBLE_EQ(history.Expect("a", 1)->tokens, 3);
  EXPECT_DOUBLE_EQ(history.Expect("a", 2)->tokens, 3);
  EXPECT_DOUBLE_EQ(history.Expect("a", 60)->seconds, 0.05);
  EXPECT_FALSE(history.Expect("b", 1).has_value());
  for (size_t i = 0; i < 2 * DrafterHistory::kMaxNames; ++i) {
    history.AddText(std::to_string(i), 1, 2, 0);
    history.AddRound(std::to_string(i), 1, 0.01);
  }
  EXPECT_TRUE(history.Expect("0", 1).has_value());
  EXPECT_FALSE(history.Expect(std::to_string(DrafterHistory::kMaxNames), 1).has_value());
}

}  // namespace
}  // namespace tandem::orchestrator::drafter_chooser_test
