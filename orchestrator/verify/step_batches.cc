#include "orchestrator/verify/step_batches.h"

#include <algorithm>
#include <utility>

namespace tandem::orchestrator {

void StepBatches::Close(base::SequenceId sequence) {
  steps_.erase(std::remove_if(steps_.begin(), steps_.end(),
                              [sequence](const v1::Step& step) {
                                return step.sequence() == base::Number(sequence);
                              }),
               steps_.end());
  closings_.push_back(sequence);
}

void StepBatches::Clear() {
  steps_.clear();
  closings_.clear();
}

v1::Batch StepBatches::Take(size_t max_bytes) {
  v1::Batch batch;
  for (base::SequenceId sequence : closings_) batch.add_close(base::Number(sequence));
  closings_.clear();
  size_t bytes = batch.ByteSizeLong();
  size_t taken = 0;
  for (v1::Step& step : steps_) {
    bytes += step.ByteSizeLong() + 8;
    if (taken > 0 && bytes > max_bytes) break;
    batch.mutable_steps()->Add(std::move(step));
    ++taken;
  }
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(taken));
  return batch;
}

}  // namespace tandem::orchestrator
