// That the cells cover what they claim.
#include "tests/integration/exactness_cells.h"

#include <functional>
#include <set>
#include <string>
#include <tuple>

#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

using sampling::SamplingParameters;

TEST(ExactnessCellsTest, EachPairOfValuesMeetsInACell) {
  std::set<std::tuple<size_t, int, size_t, int>> met;
  for (const ExactnessCell& cell : ExactnessCells()) {
    const auto levels = cell.levels();
    for (size_t a = 0; a < levels.size(); ++a) {
      ASSERT_LT(levels[a], kCellLevels[a]);
      for (size_t b = a + 1; b < levels.size(); ++b) met.insert({a, levels[a], b, levels[b]});
    }
  }
  for (size_t a = 0; a < kCellLevels.size(); ++a) {
    for (size_t b = a + 1; b < kCellLevels.size(); ++b) {
      for (int i = 0; i < kCellLevels[a]; ++i) {
        for (int j = 0; j < kCellLevels[b]; ++j) {
          EXPECT_TRUE(met.contains({a, i, b, j}))
              << "factor " << a << " at " << i << ", factor " << b << " at " << j;
        }
      }
    }
  }
}

TEST(ExactnessCellsTest, EachOptionMeetsEachRule) {
  const std::pair<const char*, std::function<bool(const SamplingParameters&)>> options[] = {
      {"temperature", [](const auto& p) { return p.temperature != 1; }},
      {"top_k", [](const auto& p) { return p.top_k != 0; }},
      {"top_p", [](const auto& p) { return p.top_p != 1; }},
      {"min_p", [](const auto& p) { return p.min_p != 0; }},
      {"bias", [](const auto& p) { return !p.bias.empty(); }},
      {"banned", [](const auto& p) { return !p.banned.empty(); }},
      {"allowed", [](const auto& p) { return !p.allowed.empty(); }},
      {"presence", [](const auto& p) { return p.presence_penalty != 0; }},
      {"frequency", [](const auto& p) { return p.frequency_penalty != 0; }},
      {"repetition", [](const auto& p) { return p.repetition_penalty != 1; }},
      {"minimum", [](const auto& p) { return p.min_tokens > 0 && !p.stop_token_ids.empty(); }}};
  for (const auto& [name, is_on] : options) {
    std::set<CellRule> rules;
    for (const ExactnessCell& cell : ExactnessCells()) {
      if (is_on(cell.sampling)) rules.insert(cell.rule);
    }
    EXPECT_EQ(rules.size(), kCellLevels[0]) << name;
  }
  std::set<CellRule> own_temperature;
  for (const ExactnessCell& cell : ExactnessCells()) {
    if (cell.draft_temperature == 0) continue;
    EXPECT_EQ(cell.drafter, CellDrafter::kSampled) << cell.name << ": it would mean nothing";
    own_temperature.insert(cell.rule);
  }
  EXPECT_EQ(own_temperature.size(), kCellLevels[0]);
}

TEST(ExactnessCellsTest, NamesAndSeedsAreDistinctAndTextsReachPastTheFirstRound) {
  std::set<std::string> names;
  std::set<uint64_t> seeds;
  for (const ExactnessCell& cell : ExactnessCells()) {
    EXPECT_TRUE(names.insert(cell.name).second) << cell.name;
    EXPECT_GE(cell.text_tokens, 6u) << cell.name;
    EXPECT_TRUE(seeds.insert(TextsOf(cell, 1000).first_seed).second) << cell.name;
  }
  EXPECT_GE(names.size(), 24u);
}

}  // namespace
}  // namespace tandem::testing
