#include "orchestrator/request_flags.h"

#include "orchestrator/draft/draft_session.h"

namespace tandem::orchestrator {

void AddRequestFlags(Options& options, flags::FlagSet& flags) {
  const absl::Duration millisecond = absl::Milliseconds(1);
  flags.Group("Requests");
  flags.Number(
      "max-active-requests", &options.max_active_requests, 1, 65536,
      "maximum number of running requests; others wait. A request that is paused because its "
      "client does not read is not counted");
  flags.Number("max-waiting-requests", &options.max_waiting_requests, 0, 16384,
               "maximum number of waiting requests; others are refused");
  flags.Number(
      "max-unchecked-mib", &options.max_unchecked_mib, 64, 1 << 20,
      "MiB for requests that were received but not checked yet; others are refused, as are those "
      "of a connection that uses a quarter of it, or of an address that uses three quarters of "
      "what others leave");
  flags.Duration("admission-patience", &options.admission_patience, millisecond, absl::Hours(24),
                 "how long a request without a deadline waits for admission");
  flags.Number("default-max-tokens", &options.default_max_tokens, 0, UINT32_MAX,
               "max_tokens of requests that do not set it; 0 = as many as the context and the "
               "target's KV cache allow");
  flags.Duration("slot-patience", &options.loop.slot_patience, millisecond, absl::Hours(24),
                 "how long a request without a deadline waits for a slot and KV cache at a target");
  flags.Duration("target-patience", &options.loop.target_patience, millisecond, absl::Hours(24),
                 "end a request with UNAVAILABLE when no target has answered for this long");
  flags.Group("Clients that read slowly");
  flags.Duration("reader-patience", &options.loop.abort_after, millisecond, absl::Hours(24),
                 "end a call whose client falls behind for this long, or does not read the rest "
                 "within this after the end of the text");
  flags.Number("max-open-calls", &options.max_open_calls, 0, 1 << 20,
               "maximum number of open calls, including those that only wait for their readers; "
               "others are refused; 0 = twice the requests that may run and wait");
  flags.Number("max-unread-bytes", &options.max_unread_bytes, 1 << 20, kMaxUnreadBytes,
               "bytes of replies that clients have not read; above it the calls that hold the "
               "most are ended");
  flags.Group("Rounds");
  flags.Choice(
      "length-policy", &options.length_policy, {"auto", "heuristic"},
      "how the draft tokens of a round are chosen unless the request says: auto, for the highest "
      "throughput by measured rounds, 0 included; heuristic, by what was accepted alone");
  flags.Number("prepare", &options.prepare, 0, kMaxOutcomes,
               "maximum number of outcomes of a round for which the draft prepares the next block "
               "while the target verifies, for requests that leave it to length policy auto, which "
               "then chooses no trees; 0 = none. For drafts with processors of their own");
  flags.Duration(
      "draft-wait", &options.loop.draft_wait, millisecond, absl::Minutes(1),
      "maximum time that a round waits for its block; it adapts downwards to the target's speed");
  flags.Duration("draft-wait-floor", &options.loop.draft_wait_floor, millisecond, absl::Minutes(1),
                 "minimum of the adapted wait");
  flags.Duration(
      "watchdog-min", &options.loop.watchdog_min, millisecond, absl::Hours(1),
      "minimum timeout of a Step; ten times as long for the first one after a target's start");
}

}  // namespace tandem::orchestrator
