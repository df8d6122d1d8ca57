// Rounds that are wrong in ways known from the field: enumeration (round_law.h) sees each of them,
// and nothing in the same setting without the fault.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/common/acceptance/round_law.h"
#include "tests/support/chi_square.h"

namespace tandem::acceptance::wrong_rounds_test {
namespace {

using testing::TotalVariation;

constexpr double kSeen = 1e-3;

struct Control {
  std::string name;
  Setting setting;
};

std::vector<Control> Controls() {
  const Setting speculative, block{.rule = Rule::kBlock};
  std::vector<Control> controls;
  const auto add = [&](std::string name, Setting setting, Wrong wrong) -> Setting& {
    setting.wrong = wrong;
    controls.push_back({std::move(name), setting});
    return controls.back().setting;
  };
  for (const Setting& setting : {speculative, block}) {
    const std::string of = setting.rule == Rule::kBlock ? "Block" : "Speculative";
    add(of + "RedrawsFromP", setting, Wrong::kRedrawsFromP);
    add(of + "ResidualOnlyDropsToken", setting, Wrong::kResidualOnlyDropsToken);
    add(of + "QBeforeTruncation", setting, Wrong::kQBeforeTruncation);
    add(of + "BonusFromQ", setting, Wrong::kBonusFromQ);
    add(of + "DropsUnlikelyToken", setting, Wrong::kDropsUnlikelyToken);
    Setting& banned = add(of + "DropsBannedToken", setting, Wrong::kDropsBannedToken);
    banned.draft = Draft::kUnaware;
    banned.options.banned = {2};
    add(of + "KeepsPenaltyCounts", setting, Wrong::kKeepsHistory).options = {
        .repetition_penalty = 1.4, .presence_penalty = 0.7, .frequency_penalty = 0.5};
    add(of + "KeepsMinimumTokens", setting, Wrong::kKeepsHistory).options = {.min_tokens = 3,
                                                                             .stop_token_ids = {1}};
  }
  add("SpeculativeOneUniform", speculative, Wrong::kOneUniform);
  add("BlockStopsAtFirstFailure", block, Wrong::kStopsAtFirstFailure);
  Setting& keyed = add("BlockWithoutCommittedInItsKey", block, Wrong::kNoCommittedInKey);
  keyed.block = 4;
  keyed.vocabulary = 3;
  keyed.horizon = 5;
  return controls;
}

class WrongRoundsTest : public ::testing::TestWithParam<Control> {};

TEST_P(WrongRoundsTest, AreSeen) {
  Setting setting = GetParam().setting;
  const std::vector<double> target = TargetLaw(setting);
  const double distance = TotalVariation(RoundsLaw(setting), target);
  EXPECT_GT(distance, kSeen);
  RecordProperty("distance", std::to_string(distance));
  setting.wrong = Wrong::kNothing;
  EXPECT_LE(TotalVariation(RoundsLaw(setting), target), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Wrongs, WrongRoundsTest, ::testing::ValuesIn(Controls()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::acceptance::wrong_rounds_test
