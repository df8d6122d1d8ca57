// Steps of one model for all sequences that are at work with it: each Run gathers a part of as many
// as fit, makes one Step of them and hands the logits back. Blocks at their first token, at their
// last, and prompts go together; who joins is in the next Step, who leaves is in none.
//
// Rows are shared by deficit round-robin among clients, and among the sequences of each by weight.
// Reading gets at most half of the rows while blocks are drafted.
//
// Without a given number, a Step has as many rows as pay: the fewest whose time per row is within a
// quarter of the best that was measured. On a device that computes all the time that is few, and a
// lone block beside many waits for short Steps; where rows cost next to nothing it is many. The
// bits do not depend on it.
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/clock.h"
#include "common/scheduling/cost_curve.h"
#include "common/scheduling/fair_share.h"
#include "draft_service/drafter.h"
#include "model/language_model.h"

namespace tandem::draft_service {

struct StepMember {
  uint64_t group = 0;  // its client
  uint64_t id = 0;     // unique
  int weight = 1;
  SteppedDrafter* drafter = nullptr;  // not owned; of the batcher's model
};

struct StepResult {
  uint64_t member = 0;
  absl::Status status;   // not OK: the drafter is of no use any more
  bool drafted = false;  // one candidate more
};

struct StepReport {
  int rows = 0;  // 0: there was no Step
  int sequences = 0;
  absl::Duration time;              // of the Step alone
  std::vector<StepResult> results;  // of those that were in it, and of those whose part was refused
};

class StepBatcher {
 public:
  // `step_rows`: the most rows of a Step; 0: chosen here. Both must outlive it.
  StepBatcher(model::LanguageModel& model, int step_rows, const concurrency::Clock& clock);

  // Its drafter wants rows. Does nothing if it is in.
  void Join(const StepMember& member);
  void Leave(uint64_t id);  // does nothing if it is not in
  bool empty() const { return members_.empty(); }

  // One Step, if anybody is in. Members stay until they Leave; by the next Run those that want
  // nothing must have. A part that the model would refuse (no room, an id out of range) is refused
  // before, so that the others do not suffer; an error of the Step is that of all in it.
  StepReport Run();

  // Rows that were wanted and were not in the last Step, and those of who came since.
  int64_t waiting_rows() const { return waiting_rows_; }
  // How long the next Step will take, by those measured before; 0: not known.
  absl::Duration ExpectedTime() const;

 private:
  using Item = scheduling::FairShare::Item;
  struct Chosen {
    size_t member = 0;  // index
    int rows = 0;
    model::StepPart part;
  };

  int RowLimit() const;
  std::vector<Chosen> Choose();
  void StepThese(absl::Span<const Chosen> chosen, StepReport& report);

  model::LanguageModel& model_;
  const int step_rows_;
  const concurrency::Clock& clock_;
  std::vector<StepMember> members_;  // in the order of joining
  scheduling::FairShare drafting_share_;
  scheduling::FairShare reading_share_;
  bool readers_turn_ = false;  // when a Step has one row for both
  int64_t waiting_rows_ = 0;
  scheduling::CostCurve cost_;  // of Steps that read nothing: rows without logits are cheaper
};

}  // namespace tandem::draft_service
