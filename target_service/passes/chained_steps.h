// Steps whose block follows from how the Step before them ends (target.proto, Step.after): so the
// device goes on with a sequence in its next pass, and does not wait for the client to read a
// verdict and to send the next block.
//
// A chained Step waits among the others (waiting_steps.h). Once the outcome is known it becomes the
// Step that the client would have sent: same prefix, same checks, same roll-back of what is held.
// The client may overrule it by a Step of its own; then what was computed for it is rolled back
// like draft tokens that were not accepted.
//
// Thread safety: none; the device's thread alone.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/clock.h"
#include "target_service/answers/answers.h"
#include "target_service/answers/work.h"
#include "target_service/passes/gathering.h"
#include "target_service/passes/passes.h"
#include "target_service/passes/waiting_steps.h"
#include "target_service/sequences/sequence_table.h"

namespace tandem::target_service {

class ChainedSteps {
 public:
  // All of them outlive this. `max_length`: of a sequence.
  ChainedSteps(uint32_t max_length, WaitingSteps& waiting, SequenceTable& table, Passes& passes,
               Gathering& gathering, Answers& answers, const concurrency::Clock& clock)
      : max_length_(max_length),
        waiting_(waiting),
        table_(table),
        passes_(passes),
        gathering_(gathering),
        answers_(answers),
        clock_(clock) {}

  // `work` waits, or is refused: STALE where its sequence is not held, INVALID where the sequence's
  // rule has no certain outcomes or another chained Step of it waits.
  void Add(std::unique_ptr<Work> work);
  // Begins those whose outcome came true, and refuses those whose can not any more. Call it before
  // each pass.
  void Begin();
  // A Step of the sequence's own has come: a chained one that began is answered now, if need be
  // STALE.
  void Overrule(serving::StreamId stream, base::SequenceId sequence);

 private:
  void Decide(Work& work);

  const uint32_t max_length_;
  WaitingSteps& waiting_;
  SequenceTable& table_;
  Passes& passes_;
  Gathering& gathering_;
  Answers& answers_;
  const concurrency::Clock& clock_;
};

}  // namespace tandem::target_service
