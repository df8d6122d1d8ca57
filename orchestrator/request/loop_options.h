// The options of request loops; orchestrator/options.h has the rest. A plain value.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem::orchestrator {

// The options of one request's loop. All times are measured on a steady clock.
struct LoopOptions {
  // The longest time that a round waits for its block. The wait adapts downwards: it is never
  // longer than four of the target's measured rounds. But it never goes below the next value, so
  // that a busy machine's hiccups do not look like a slow draft. Time alone decides, never a
  // token's value.
  absl::Duration draft_wait = absl::Milliseconds(200);
  absl::Duration draft_wait_floor = absl::Milliseconds(20);

  // A draft is given up for another one if it owes an answer for longer than this and than eight of
  // its usual times. Rounds do not wait for it meanwhile. A long prefix gives it more time.
  absl::Duration draft_silence = absl::Seconds(2);

  // The shortest and the longest back-off before a reconnection. It applies to drafts, and to
  // replays to a target that answers with faults of its own.
  absl::Duration backoff_min = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Seconds(2);

  // A Step that is unanswered for max(watchdog_min, watchdog_factor x expected time) means that its
  // stream is dead. For the first Steps of a target's process it is up to ten times watchdog_min
  // (verify/step_watchdog.h).
  absl::Duration watchdog_min = absl::Milliseconds(500);
  double watchdog_factor = 8;

  // A target may be gone or answer with faults for this long. Then the request ends with
  // UNAVAILABLE.
  absl::Duration target_patience = absl::Seconds(30);
  // A request without a deadline waits this long for a slot and then gets RESOURCE_EXHAUSTED.
  absl::Duration slot_patience = absl::Seconds(60);

  // A text pauses when its reader is more than this many tokens behind, or as UnreadCall says.
  // After `close_after` its sequences are closed, to be refilled later. After `abort_after` of
  // pause, or of waiting for the reader after the text's end, the call ends with ABORTED.
  uint32_t max_undelivered_tokens = 1024;
  absl::Duration close_after = absl::Seconds(5);
  absl::Duration abort_after = absl::Seconds(60);

  // The most tokens of prefix in one Step. A token takes at most 5 bytes on the wire, and a message
  // at most 1 MiB.
  uint32_t max_prefix_tokens = 128 * 1024;

  absl::Status Validate() const;  // INVALID_ARGUMENT names each bad value
};

}  // namespace tandem::orchestrator
