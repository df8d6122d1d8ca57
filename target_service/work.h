// What the device's thread knows of a Step and of a stream.
//
// Thread safety: the device's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/scheduling/cost_curve.h"
#include "tandem/v1/target.pb.h"
#include "target_service/pass_policy.h"
#include "target_service/sequence_table.h"
#include "target_service/step_check.h"
#include "target_service/step_queue.h"

namespace tandem::target_service {

struct Stream {
  StreamId id = 0;
  std::string client_id;
  uint64_t incarnation = 0;
  std::shared_ptr<VerdictSink> sink;
  v1::Verdicts outgoing;
  bool finishing = false;                                // the client sends nothing more
  absl::Duration last_step = -absl::InfiniteDuration();  // when it last asked for something
  std::vector<scheduling::CostCurve::Point> told_curve;  // as the client knows it
};

// Rows with logits that a prompt takes of a pass, for its log probabilities: judging a row takes the
// device's thread as long as a vocabulary is large, and the others of the pass wait for it.
inline constexpr int kMaxPromptLogprobRows = 64;

// One Step between its arrival and its verdict.
struct Work {
  StreamId stream = 0;
  CheckedStep step;
  StepPlan plan;
  size_t done = 0;  // of plan.tokens
  absl::Duration arrived;
  absl::Duration began = absl::InfiniteDuration();  // its first pass
  absl::Duration computed;
  v1::Verdict verdict;
  bool answered = false;

  bool started() const { return began != absl::InfiniteDuration(); }
  int left() const { return static_cast<int>(plan.tokens.size() - done); }
  WaitingRows waiting() const {
    WaitingRows rows{stream, step.sequence, left() - plan.verify_rows, plan.verify_rows,
                     plan.sequence->settings.priority};
    if (step.prompt_logprobs) rows.max_prefill = kMaxPromptLogprobRows;
    return rows;
  }
  bool expired(absl::Duration now) const { return !started() && now - arrived >= step.remaining; }
};

}  // namespace tandem::target_service
