// The Steps and closings that wait to be written on a Verify stream, in order. They are taken out
// as Batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

// Not thread-safe.
class StepBatches {
 public:
  void Add(v1::Step step) { steps_.push_back(std::move(step)); }
  // Ends a sequence. Its waiting Steps are dropped.
  void Close(uint64_t sequence);
  void Clear();
  bool empty() const { return steps_.empty() && closings_.empty(); }

  // The next Batch: all closings, and as many Steps as fit into `max_bytes`, at least one. Closings
  // come first, so that a closed sequence is freed before a Step takes its slot.
  v1::Batch Take(size_t max_bytes);

 private:
  std::vector<v1::Step> steps_;
  std::vector<uint64_t> closings_;
};

}  // namespace tandem::orchestrator
