// What waits to be written on a Verify stream: Steps and closings, in order, taken out a Batch at a time.
// Tokens of a prompt, which samples share, become part of a message only then: many Steps may wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/speculation/token_slice.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

// Not thread-safe.
class StepBatches {
 public:
  void Add(uint64_t sequence, VerifyStep step);
  // Ends a sequence: its Steps that still wait are dropped.
  void Close(uint64_t sequence);
  void Clear();
  bool empty() const { return steps_.empty() && closings_.empty(); }

  // The next Batch: all closings, and as many Steps as fit into `max_bytes`, at least one. A sequence
  // that was closed is freed before a Step takes its slot.
  v1::Batch Take(size_t max_bytes);

 private:
  struct Waiting {
    v1::Step step;
    speculation::TokenSlice prompt;  // the prefix's tokens, if they are shared
  };

  std::vector<Waiting> steps_;
  std::vector<uint64_t> closings_;
};

}  // namespace tandem::orchestrator
