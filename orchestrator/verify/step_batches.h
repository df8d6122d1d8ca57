// What waits to be written on a Verify stream: Steps and closings, in order, taken out a Batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

// Not thread-safe.
class StepBatches {
 public:
  void Add(v1::Step step) { steps_.push_back(std::move(step)); }
  // Ends a sequence: its Steps that still wait are dropped.
  void Close(base::SequenceId sequence);
  void Clear();
  bool empty() const { return steps_.empty() && closings_.empty(); }

  // The next Batch: all closings, and as many Steps as fit into `max_bytes`, at least one. A sequence
  // that was closed is freed before a Step takes its slot.
  v1::Batch Take(size_t max_bytes);

 private:
  std::vector<v1::Step> steps_;
  std::vector<base::SequenceId> closings_;
};

}  // namespace tandem::orchestrator
