// The record of a decided round. Its trace, its metrics and its line in a client's time line are
// all made of it. The fields are those of generation.proto's RoundRecord and Stages, which give
// their meaning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/drafter_choice.h"
#include "orchestrator/request/length_choice.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// A plain value. All times are of one steady clock, the loop's.
struct RoundRecord {
  uint32_t number = 0;     // from 0, within the sample
  uint32_t committed = 0;  // tokens before it, the prompt's included
  concurrency::Instant began;
  concurrency::Instant decided;  // the stages sum up to decided - began
  RoundStages stages;
  absl::Duration
      draft_queue;            // of stages.draft: waiting for the drafting thread, as the draft says
  uint32_t draft_tokens = 0;  // that were checked; of a tree all nodes
  uint32_t draft_depth = 0;   // of these, on the longest path; of a chain all
  uint32_t accepted_tokens = 0;  // of these
  uint32_t node = 0;             // the last accepted one, from 1; 0: none was accepted
  bool tree = false;             // the draft tokens were a tree
  bool rejected = false;         // ended by a rejection
  uint32_t tokens = 0;           // that the text got; accepted_tokens + 1 - tokens were cut
  std::optional<PlainCause> cause;
  std::optional<LengthChoice> choice;  // of the length policy; absent: it was not asked
  // Who was to draft; absent: the request names one drafter or none, or nobody was asked.
  std::optional<DrafterChoice> drafter;
  PreparedUse prepared = PreparedUse::kNone;
  // Where blocks were to be prepared for it, while the block before was verified:
  uint32_t prepared_tokens = 0;    // of each at most
  uint32_t prepared_outcomes = 0;  // at most
  absl::Duration verified_in;      // from that block's Step to its verdict
  // From that Step to the first prepared block; absent: there was none in time.
  std::optional<absl::Duration> prepared_in;
  uint32_t asked_tokens = 0;  // choice->tokens, or fewer where there is no room for them
  uint64_t pass_id = 0;
  uint32_t pass_rows = 0;
  uint32_t pass_sequences = 0;
  absl::Duration prefill;  // of stages.queue and stages.device: prompts and replays of any request

  // How many draft tokens could be accepted: those of the longest path.
  uint32_t length() const { return tree ? draft_depth : draft_tokens; }
  // Whether it went without a draft because that was not there or did not fit: it says nothing of
  // what a block brings.
  bool DraftFailed() const {
    return cause == PlainCause::kDraftLost || cause == PlainCause::kDraftRefused ||
           cause == PlainCause::kDraftInvalid || cause == PlainCause::kDraftStale;
  }
  // Its whole time but for prefill, which comes in bursts and says nothing of how the round was
  // drafted. At least 0.
  absl::Duration without_prefill() const {
    return std::max(decided - began - prefill, absl::ZeroDuration());
  }
};

}  // namespace tandem::orchestrator
