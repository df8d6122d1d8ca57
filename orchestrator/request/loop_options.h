// What an orchestrator is told of its loops; orchestrator/options.h has the rest. A plain value.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tandem::orchestrator {

// How one request's loop behaves. All times are measured on a steady clock.
struct LoopOptions {
  // The longest that a round waits for its block. The wait adapts downwards: it is never longer
  // than four of the target's measured rounds, but for the floor below, which keeps a busy
  // machine's hiccups from looking like a slow draft. Time alone decides, never a token's value.
  absl::Duration draft_wait = absl::Milliseconds(200);
  absl::Duration draft_wait_floor = absl::Milliseconds(20);

  // A draft that owes an answer for longer than this, and than eight of its usual ones, is given up for
  // another one. Rounds do not wait for it meanwhile. It has more time for a long prefix.
  absl::Duration draft_silence = absl::Seconds(2);

  // The least and the most that the back-off before reconnecting takes (draft, and replays to a
  // target that answers with faults of its own).
  absl::Duration backoff_min = absl::Milliseconds(20);
  absl::Duration backoff_max = absl::Seconds(2);

  // A Step unanswered for max(watchdog_min, watchdog_factor x expected) means that its stream is
  // dead.
  absl::Duration watchdog_min = absl::Milliseconds(500);
  double watchdog_factor = 8;

  // The target may be gone, or answer with faults, for this long; then the request ends:
  // UNAVAILABLE.
  absl::Duration target_patience = absl::Seconds(30);
  // A request without a deadline waits this long for a slot; then RESOURCE_EXHAUSTED.
  absl::Duration slot_patience = absl::Seconds(60);

  // A reader who is more than this many tokens of a text behind pauses its generation. After `close_after` of
  // pause the request's sequences are closed (and refilled later), after `abort_after` it ends:
  // ABORTED.
  uint32_t max_undelivered_tokens = 1024;
  absl::Duration close_after = absl::Seconds(5);
  absl::Duration abort_after = absl::Seconds(60);

  // Tokens of prefix in one Step (at most 5 bytes each on the wire, and a message is at most 1
  // MiB).
  uint32_t max_prefix_tokens = 128 * 1024;

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

}  // namespace tandem::orchestrator
