// The passes of the draft's models: which sequences are in the next one, which are too late for it,
// and what came of it. A pass is one forward pass of a model, formed by its PassBuilder
// (pass_builder.h).
//
// Thread safety: the drafting thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "draft_service/passes/pass_builder.h"
#include "draft_service/sequences/sequence_table.h"
#include "model/language_model.h"

namespace tandem::draft_service {

// A pass that is over.
struct EndedPass {
  // A sequence that was in it, or whose part of it was refused.
  struct Member {
    Sequence* sequence = nullptr;
    absl::Status status;   // not OK: its drafter is of no use any more
    bool drafted = false;  // at least one draft token more
  };
  int rows = 0;  // 0: the model made no pass
  int sequences = 0;
  absl::Duration time;  // with the drawing of tokens
  absl::Status device;  // as PassReport's
  std::vector<Member> members;
};

class Passes {
 public:
  // `pass_rows`: as Options'. `clock` outlives it.
  Passes(int pass_rows, const concurrency::Clock& clock);

  // In the passes of its drafter's model while the drafter wants rows, and out of them. It stays
  // where it is until Leave: so Leave comes before its end.
  void JoinOrLeave(Sequence& sequence);
  void Leave(const Sequence& sequence);  // does nothing if it is not in
  bool empty() const { return at_work_.empty(); }
  size_t size() const { return at_work_.size(); }  // sequences that are in them

  // Those whose time is over, or would be before another pass is. Looks at the clock and at the
  // time that recent passes took, never at a token or its probability.
  std::vector<Sequence*> Late() const;

  // One pass of each model that has work. `ended` hears of each when it is over, and before the
  // next one. False: there was no work.
  bool Run(absl::FunctionRef<void(const EndedPass&)> ended);

  // Rows that wait for a pass.
  int64_t waiting_rows() const;

 private:
  struct AtWork {
    Sequence* sequence = nullptr;
    PassBuilder* builder = nullptr;
  };

  EndedPass RunOne(PassBuilder& builder);

  const int pass_rows_;
  const concurrency::Clock& clock_;
  std::map<model::LanguageModel*, PassBuilder> builders_;
  std::map<uint64_t, AtWork> at_work_;  // in a builder, by the sequence's id
};

}  // namespace tandem::draft_service
