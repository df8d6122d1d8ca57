// The Steps and closings that wait to be written on a Verify stream, in order. They are taken out
// as Batches. Samples share the tokens of a prompt. A Step gets its own copy of them only when it
// is taken out, because many Steps may wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/speculation/token_slice.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::orchestrator {

// Not thread-safe.
class StepBatches {
 public:
  void Add(base::SequenceId sequence, VerifyStep step);
  // Ends a sequence. Its waiting Steps are dropped.
  void Close(base::SequenceId sequence);
  void Clear();
  size_t size() const { return steps_.size() + closings_.size(); }
  bool empty() const { return size() == 0; }

  // The next Batch: the closings, and as many Steps as fit into `max_bytes`, at least one. Closings
  // come first, so that a closed sequence is freed before a Step takes its slot. If there are more
  // than messages::kMaxClosings, the Batch has so many of them and no Step.
  internal::v1::Batch Take(size_t max_bytes);

 private:
  struct Waiting {
    internal::v1::Step step;
    speculation::TokenSlice prompt;  // the prefix's tokens, if they are shared
  };

  std::vector<Waiting> steps_;
  std::vector<base::SequenceId> closings_;
};

}  // namespace tandem::orchestrator
