#include "orchestrator/verify/step_batches.h"

#include <algorithm>
#include <utility>

#include "common/messages/limits.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

using Tokens = google::protobuf::RepeatedField<uint32_t>;

}  // namespace

void StepBatches::Add(base::SequenceId sequence, VerifyStep step) {
  Waiting& waiting = steps_.emplace_back();
  if (step.prefix.tokens.shared()) waiting.prompt = std::exchange(step.prefix.tokens, {});
  waiting.step = ToWire(sequence, std::move(step));
}

void StepBatches::Close(base::SequenceId sequence) {
  steps_.erase(std::remove_if(steps_.begin(), steps_.end(),
                              [sequence](const Waiting& waiting) {
                                return waiting.step.sequence() == base::Number(sequence);
                              }),
               steps_.end());
  closings_.push_back(sequence);
}

void StepBatches::Clear() {
  steps_.clear();
  closings_.clear();
}

internal::v1::Batch StepBatches::Take(size_t max_bytes) {
  internal::v1::Batch batch;
  const auto closed = closings_.begin() + static_cast<ptrdiff_t>(std::min<size_t>(
                                              closings_.size(), messages::kMaxClosings));
  for (auto it = closings_.begin(); it != closed; ++it) batch.add_close(base::Number(*it));
  closings_.erase(closings_.begin(), closed);
  if (!closings_.empty()) return batch;
  size_t bytes = batch.ByteSizeLong();
  size_t taken = 0;
  for (Waiting& waiting : steps_) {
    internal::v1::Step& step = waiting.step;
    if (!waiting.prompt.empty()) {
      step.mutable_prefix()->mutable_tokens()->Add(waiting.prompt.begin(), waiting.prompt.end());
    }
    bytes += step.ByteSizeLong() + 8;
    if (taken > 0 && bytes > max_bytes) {
      if (!waiting.prompt.empty()) *step.mutable_prefix()->mutable_tokens() = Tokens();
      break;
    }
    batch.mutable_steps()->Add(std::move(step));
    ++taken;
  }
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<ptrdiff_t>(taken));
  return batch;
}

}  // namespace tandem::orchestrator
