// Every rule under every option, by enumeration (round_law.h): over several rounds the tokens
// follow the target's joint law to 1e-12.
#include "tests/common/acceptance/round_law.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/address_sanitizer.h"
#include "tests/support/chi_square.h"

namespace tandem::acceptance {
namespace {

using testing::TotalVariation;

constexpr double kExact = 1e-12;

// Blocks of 1, 2 and 4 draft tokens, so that rounds overlap in every way.
std::vector<Setting> Shapes(Rule rule) {
  constexpr int kLess = testing::kAddressSanitizer ? 1 : 0;
  return {{.rule = rule, .block = 1, .vocabulary = 4, .horizon = 4 - kLess},
          {.rule = rule, .block = 2, .vocabulary = 4, .horizon = 4 - kLess},
          {.rule = rule, .block = 4, .vocabulary = 3, .horizon = 5 - kLess}};
}

class ExactRuleTest : public ::testing::TestWithParam<Rule> {};

TEST_P(ExactRuleTest, FollowsTheTargetsJointLaw) {
  for (Setting setting : Shapes(GetParam())) {
    for (const NamedOptions& set : OptionSets(GetParam() == Rule::kGreedy)) {
      setting.options = set.options;
      const std::vector<double> target = TargetLaw(setting);
      for (Draft draft : {Draft::kSampled, Draft::kUnaware, Draft::kOneHot, Draft::kRandom}) {
        setting.draft = draft;
        EXPECT_LE(TotalVariation(RoundsLaw(setting), target), kExact)
            << Name(GetParam()) << ", " << set.name << ", draft " << static_cast<int>(draft)
            << ", block " << setting.block;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, ExactRuleTest,
                         ::testing::Values(Rule::kGreedy, Rule::kSpeculative, Rule::kBlock),
                         [](const auto& info) { return Name(info.param); });

// Whatever a draft knows, the target's draws of this place and of all to come, the law is the
// target's.
TEST(CoupledRuleTest, FollowsTheTargetsJointLawWhateverTheDraftKnows) {
  using Path = std::vector<uint32_t>;
  const std::vector<KnowingDraft> drafts = {
      [](const Path&, size_t) { return 0u; },
      [](const Path& path, size_t place) { return path[place]; },
      [](const Path& path, size_t place) { return path[place] + 1; },
      [](const Path& path, size_t place) { return path[place] + (place % 2 == 0 ? 0 : 1); },
      [](const Path& path, size_t) { return path.back(); },
      [](const Path& path, size_t place) { return path.back() == 0 ? path[place] : 99; },
      [](const Path& path, size_t) { return *std::max_element(path.begin(), path.end()); },
  };
  for (Setting setting : Shapes(Rule::kCoupled)) {
    for (const NamedOptions& set : OptionSets(false)) {
      setting.options = set.options;
      const std::vector<double> target = TargetLaw(setting);
      for (KnowingDraft draft : drafts) {
        EXPECT_LE(TotalVariation(CoupledLaw(setting, draft), target), kExact) << set.name;
      }
    }
  }
}

TEST(LenientRuleTest, IsExactOnlyWithLeniencyOne) {
  for (Setting setting : Shapes(Rule::kLenient)) {
    for (const NamedOptions& set : OptionSets(false)) {
      setting.options = set.options;
      setting.leniency = 1;
      const std::vector<double> target = TargetLaw(setting);
      EXPECT_LE(TotalVariation(RoundsLaw(setting), target), kExact) << set.name;
      double last = 0;
      for (double leniency : {0.8, 0.5, 0.1}) {
        setting.leniency = leniency;
        const std::vector<double> law = RoundsLaw(setting);
        const double distance = TotalVariation(law, target);
        EXPECT_GT(distance, 1e-3) << set.name << " " << leniency;
        EXPECT_GE(distance, last - kExact) << set.name << " " << leniency;
        last = distance;
        const double ratio = LargestRatio(setting, law);
        EXPECT_LE(ratio, 1 / leniency + kExact) << set.name;
        EXPECT_GT(ratio, 1.001);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::acceptance
