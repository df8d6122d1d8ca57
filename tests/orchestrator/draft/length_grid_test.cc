// A sample of the grid; length_full_grid_test.cc has all of it.
#include "tests/orchestrator/draft/length_grid.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/length/auto.h"
#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"

namespace tandem::orchestrator::length_grid_test {
namespace {

MakeLength Auto(uint32_t sequences) {
  auto common = std::make_shared<CommonLength>();
  for (uint32_t i = 0; i < sequences; ++i) common->Began();
  return [common]() -> std::unique_ptr<LengthPolicy> {
    return std::make_unique<AutoLength>(*common, common->Group("", acceptance::Rule::kGreedy));
  };
}

MakeLength Heuristic(uint32_t /*sequences*/) {
  return [] { return std::make_unique<HeuristicLength>(); };
}

// Every 53rd cell meets all values of every factor. Many sequences take long to simulate.
std::vector<GridCell> Sample() {
  const std::vector<GridCell> all = LengthGrid();
  std::vector<GridCell> sample;
  for (size_t i = 7; i < all.size(); i += 53) {
    if (all[i].setting.sequences <= 16) sample.push_back(all[i]);
  }
  return sample;
}

TEST(LengthGrid, AutoIsAsFastAsTheBestFixedLengthAndNone) {
  for (const GridCell& cell : Sample()) {
    const GridResult result = Measure(cell, Auto);
    EXPECT_GE(result.ratio(), 0.97) << result.ToString();
  }
}

// Texts of one length that begin together, with prompts that take as long as some rounds: what each text waits for
// the prompts of others comes in bursts, and says nothing of lengths.
// Sixteen cells that differ by the draft's time and by the way to it stand for all (length_full_grid_test.cc).
std::vector<GridCell> WithPrompts() {
  std::vector<GridCell> cells;
  for (GridCell& cell : LengthGrid()) {
    if (!absl::StartsWith(cell.name, "flat alpha 0.5")) continue;
    if (cell.setting.sequences != 16) continue;
    cell.setting.prompt = 1000;
    cells.push_back(std::move(cell));
  }
  return cells;
}

TEST(LengthGrid, PromptsOfOthersDoNotChangeTheChoice) {
  for (const GridCell& cell : WithPrompts()) {
    const GridResult result = Measure(cell, Auto);
    EXPECT_GE(result.ratio(), 0.97) << result.ToString();
  }
}

// Is not told what prompts took.
class BlindToPrompts final : public LengthPolicy {
 public:
  explicit BlindToPrompts(std::unique_ptr<LengthPolicy> policy) : policy_(std::move(policy)) {}
  bool WantsDraft() const override { return policy_->WantsDraft(); }
  LengthChoice Next(const LengthInputs& inputs) override { return policy_->Next(inputs); }
  void Observe(const RoundRecord& round) override {
    RoundRecord blind = round;
    blind.prefill = absl::ZeroDuration();
    policy_->Observe(blind);
  }

 private:
  const std::unique_ptr<LengthPolicy> policy_;
};

MakeLength Blind(uint32_t sequences) {
  return [make = Auto(sequences)]() -> std::unique_ptr<LengthPolicy> {
    return std::make_unique<BlindToPrompts>(make());
  };
}

// A negative control. The search measures again where rounds are uneven, and takes no moment for a change. So it loses
// nothing in most cells, and a fifth in some.
TEST(LengthGrid, PromptsThatAreNotToldOfDo) {
  ASSERT_EQ(WithPrompts().size(), 16u);
  double worst = 1;
  for (const GridCell& cell : WithPrompts()) {
    worst = std::min(worst, Measure(cell, Blind).ratio() / Measure(cell, Auto).ratio());
  }
  EXPECT_LT(worst, 0.9);
}

// Where no length is near plain decoding, trials of several sequences may cost half of what they may elsewhere.
TEST(LengthGrid, NoneThatIsClearlyTheBestLosesLittleToTrials) {
  double worst = 1;
  for (const GridCell& cell : LengthGrid()) {
    if (!absl::StartsWith(cell.name, "flat alpha 0.3") || cell.setting.sequences != 16) continue;
    const double off = SimulatedSpeed(
        cell.setting, [] { return std::make_unique<FixedLength>(0); }, 1'000, 20'000, /*seed=*/1);
    const double speed = SimulatedSpeed(cell.setting, Auto(16), 5'000, 40'000, /*seed=*/1);
    worst = std::min(worst, speed / off);
  }
  EXPECT_GE(worst, 0.995);
}

// A negative control: what a policy that looks at acceptance alone loses.
TEST(LengthGrid, TheHeuristicIsNot) {
  double worst = 1;
  for (const GridCell& cell : Sample()) worst = std::min(worst, Measure(cell, Heuristic).ratio());
  EXPECT_LT(worst, 0.5);
}

}  // namespace
}  // namespace tandem::orchestrator::length_grid_test
