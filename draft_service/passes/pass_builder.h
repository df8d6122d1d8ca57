// Passes of one model for all sequences that are at work with it: each Run gathers a part of as
// many as fit, makes one pass of them and hands the logits back. Blocks at their first token, at
// their last, and prompts go together; who joins is in the next pass, who leaves is in none.
//
// Rows are shared by deficit round-robin among clients, and among the sequences of each by weight.
// Reading gets at most half of the rows while blocks are drafted.
//
// Rows of blocks in advance (ForwardDrafter) are in passes alone where nobody wants others, so a
// block that is asked for waits for one such pass at most. They are not counted as waiting.
//
// Without a given number, a pass has as many rows as pay: the fewest whose time per row is within a
// quarter of the best that was measured. On a device that computes all the time that is few, and a
// lone block beside many waits for short passes; where rows cost next to nothing it is many. The
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
#include "draft_service/drafters/drafter.h"
#include "model/language_model.h"

namespace tandem::draft_service {

struct PassMember {
  uint64_t group = 0;  // its client
  uint64_t id = 0;     // unique
  int weight = 1;
  ForwardDrafter* drafter = nullptr;  // not owned; of the builder's model
};

struct MemberResult {
  uint64_t member = 0;
  absl::Status status;   // not OK: the drafter is of no use any more
  bool drafted = false;  // at least one draft token more
};

struct PassReport {
  int rows = 0;  // 0: there was no pass
  int sequences = 0;
  absl::Duration time;  // of the pass alone
  absl::Status device;  // not OK: the model's device is lost, and no pass will succeed
  // of those that were in it, and of those whose part was refused
  std::vector<MemberResult> results;
};

class PassBuilder {
 public:
  // `pass_rows`: the most rows of a pass; 0: chosen here. Both must outlive it.
  PassBuilder(model::LanguageModel& model, int pass_rows, const concurrency::Clock& clock);

  // Its drafter wants rows. Does nothing if it is in.
  void Join(const PassMember& member);
  void Leave(uint64_t id);  // does nothing if it is not in
  bool empty() const { return members_.empty(); }

  // One pass, if anybody is in. Members stay until they Leave; by the next Run those that want
  // nothing must have. A part that the model would refuse (no room, an id out of range) is refused
  // before, so that the others do not suffer; an error of the pass is that of all in it.
  PassReport Run();

  // Rows that were wanted and were not in the last pass, and those of newer sequences.
  int64_t waiting_rows() const { return waiting_rows_; }
  // How long the next pass will take, by those measured before; 0: unknown.
  absl::Duration ExpectedTime() const;

 private:
  using Item = scheduling::FairShare::Item;
  struct Chosen {
    size_t member = 0;  // index
    int rows = 0;
    model::ForwardPart part;
  };

  int RowLimit() const;
  std::vector<Chosen> Choose();
  void RunPass(absl::Span<const Chosen> chosen, PassReport& report);

  model::LanguageModel& model_;
  const int pass_rows_;
  const concurrency::Clock& clock_;
  std::vector<PassMember> members_;  // in the order of joining
  scheduling::FairShare drafting_share_;
  scheduling::FairShare reading_share_;
  scheduling::FairShare preparing_share_;
  bool readers_turn_ = false;  // when a pass has one row for both
  int64_t waiting_rows_ = 0;
  scheduling::CostCurve cost_;  // of passes that read nothing: rows without logits are cheaper
};

}  // namespace tandem::draft_service
