// What the device's thread knows of a Step.
//
// Thread safety: the device's thread alone.
#pragma once

#include <cstddef>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/serving/stream_id.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/sequences/sequence_table.h"
#include "target_service/sequences/step_check.h"

namespace tandem::target_service {

// One Step between its arrival and its verdict.
struct Work {
  serving::StreamId stream{};
  CheckedStep step;
  StepPlan plan;
  size_t done = 0;    // of plan.tokens
  int in_flight = 0;  // of plan.tokens, in the pass that has them; 0: no pass has any
  concurrency::Instant arrived;
  concurrency::Instant began = concurrency::Instant::InfiniteFuture();  // its first pass
  absl::Duration computed;
  absl::Duration prefill;  // since it arrived passes took so long for prompts
  internal::v1::Verdict verdict;
  bool answered = false;

  // A chained Step of which it is not known yet what it computes.
  bool waits_for_outcome() const { return step.after.has_value() && plan.sequence == nullptr; }
  bool started() const { return began != concurrency::Instant::InfiniteFuture(); }
  int left() const { return static_cast<int>(plan.tokens.size() - done); }
  int prefill_left() const { return left() - plan.verify_rows; }
  bool expired(concurrency::Instant now) const {
    return !started() && now - arrived >= step.remaining;
  }
};

}  // namespace tandem::target_service
