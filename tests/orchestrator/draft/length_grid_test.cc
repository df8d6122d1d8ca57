// A sample of the grid; length_full_grid_test.cc has all of it.
#include "tests/orchestrator/draft/length_grid.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"

namespace tandem::orchestrator::length_grid_test {
namespace {

// Every 53rd cell meets all values of every factor. Many sequences take long to simulate.
std::vector<GridCell> Sample(uint32_t streams) {
  std::vector<GridCell> sample;
  const std::vector<GridCell> all = LengthGrid(streams);
  for (size_t i = 7; i < all.size(); i += 53) {
    if (all[i].setting.sequences <= 16) sample.push_back(all[i]);
  }
  return sample;
}

void ExpectGood(const GridSummary& summary) {
  EXPECT_GE(summary.mean, 0.99) << summary.worst_cell;
  EXPECT_GE(summary.worst, 0.9) << summary.worst_cell;
  EXPECT_GE(summary.worst_to_off, 0.95) << summary.worst_to_off_cell;
}

TEST(LengthGrid, AutoIsAsFastAsTheBestFixedLengthAndNone) {
  for (uint32_t streams : {1, 2, 3}) {
    SCOPED_TRACE(streams);
    ExpectGood(MeasureAll(Sample(streams), Auto));
  }
}

// Where the cells differ most by it: a bf16 target has a price for each row, and its passes are
// short where orchestrators compete. One that counts its own sequences alone, and takes passes for
// whole, prices its rows wrong.
std::vector<GridCell> Competing() {
  std::vector<GridCell> cells;
  for (const GridCell& cell : LengthGrid(/*streams=*/2)) {
    if (absl::StartsWith(cell.name, "bf16 alpha 0.9") && cell.setting.sequences == 4) {
      cells.push_back(cell);
    }
  }
  return cells;
}

// As if each orchestrator were alone at its target.
class Selfish final : public LengthPolicy {
 public:
  Selfish(std::unique_ptr<LengthPolicy> policy, uint32_t own)
      : policy_(std::move(policy)), own_(own) {}
  bool WantsDraft() const override { return policy_->WantsDraft(); }
  LengthChoice Next(const LengthInputs& inputs) override {
    LengthInputs own = inputs;
    own.decoding = {.sequences = own_};
    return policy_->Next(own);
  }
  void Observe(const RoundRecord& round) override { policy_->Observe(round); }

 private:
  const std::unique_ptr<LengthPolicy> policy_;
  const uint32_t own_;
};

MakeLength EachForItself(const SimulatedSetting& setting) {
  return [make = Auto(setting), own = setting.sequences / setting.streams](
             uint32_t stream) -> std::unique_ptr<LengthPolicy> {
    return std::make_unique<Selfish>(make(stream), own);
  };
}

// A negative control: what the target says of all that it decodes is what several orchestrators
// agree by.
TEST(LengthGrid, OrchestratorsThatDecideEachForItselfLose) {
  ASSERT_EQ(Competing().size(), 16u);
  ExpectGood(MeasureAll(Competing(), Auto));
  EXPECT_LT(MeasureAll(Competing(), EachForItself).worst, 0.9);
}

// Where draft and target share processors the target's curve is of passes beside a draft that
// computes, and plain decoding is faster than it says: 0.77 of it was left here without
// plain_check.h.
TEST(LengthGrid, WhereDraftingSlowsThePassesPlainDecodingIsFound) {
  std::vector<GridCell> cells;
  for (GridCell& cell : LengthGrid(/*streams=*/1)) {
    if (!absl::StartsWith(cell.name, "flat alpha 0.7 draft  3 x slower")) continue;
    if (cell.setting.sequences == 64 || cell.setting.draft_round_trip > 1e-3) continue;
    cell.setting.contention = 0.6;
    cells.push_back(cell);
  }
  ASSERT_EQ(cells.size(), 6u);
  const GridSummary summary = MeasureAll(cells, Auto);
  EXPECT_GE(summary.worst_to_off, 0.9) << summary.worst_to_off_cell;
}

class Counting final : public LengthPolicy {
 public:
  Counting(std::unique_ptr<LengthPolicy> policy, double& rounds, double& drafted)
      : policy_(std::move(policy)), rounds_(rounds), drafted_(drafted) {}
  bool WantsDraft() const override { return policy_->WantsDraft(); }
  LengthChoice Next(const LengthInputs& inputs) override {
    const LengthChoice choice = policy_->Next(inputs);
    rounds_ += 1;
    drafted_ += choice.tokens;
    return choice;
  }
  void Observe(const RoundRecord& round) override { policy_->Observe(round); }

 private:
  const std::unique_ptr<LengthPolicy> policy_;
  double& rounds_;
  double& drafted_;
};

double MeanLength(const SimulatedSetting& setting) {
  double rounds = 0, drafted = 0;
  const MakeLength counting = [&, make = Auto(setting)](uint32_t stream) {
    return std::make_unique<Counting>(make(stream), rounds, drafted);
  };
  SimulatedSpeed(setting, counting, 1000, 6000, /*seed=*/2);
  return drafted / rounds;
}

// Texts of one length that begin together, with prompts that take as long as some rounds: what each
// text waits for the prompts of others comes in bursts, and says nothing of lengths.
TEST(LengthGrid, PromptsOfOthersDoNotChangeTheChoice) {
  int cells = 0;
  for (GridCell& cell : LengthGrid(/*streams=*/1)) {
    if (!absl::StartsWith(cell.name, "flat alpha 0.5") || cell.setting.sequences != 16) continue;
    const double without = MeanLength(cell.setting);
    cell.setting.prompt = 1000;
    EXPECT_NEAR(MeanLength(cell.setting), without, 0.2) << cell.name;
    ++cells;
  }
  EXPECT_EQ(cells, 16);
}

// A hundred rounds of a group are enough.
TEST(LengthGrid, ItIsSettledWithinAHundredRounds) {
  for (const GridCell& cell : Sample(/*streams=*/1)) {
    const auto speed = [&](uint64_t warm_up) {
      return SimulatedSpeed(cell.setting, Auto(cell.setting), warm_up, 4000, /*seed=*/2);
    };
    EXPECT_GE(speed(100), 0.95 * speed(10'000)) << cell.name;
  }
}

// A negative control: what a policy that looks at acceptance alone loses.
TEST(LengthGrid, TheHeuristicIsNot) {
  const auto heuristic = [](const SimulatedSetting&) -> MakeLength {
    return [](uint32_t) { return std::make_unique<HeuristicLength>(); };
  };
  EXPECT_LT(MeasureAll(Sample(/*streams=*/1), heuristic).worst, 0.5);
}

}  // namespace
}  // namespace tandem::orchestrator::length_grid_test
