#include "orchestrator/request_flags.h"

namespace tandem::orchestrator {

void AddRequestFlags(Options& options, flags::FlagSet& flags) {
  const absl::Duration millisecond = absl::Milliseconds(1);
  flags.Group("Requests");
  flags.Number(
      "max-active-requests", &options.max_active_requests, 1, 65536,
      "requests that run at once; those beyond them wait. One that is paused because its client "
      "does not read does not count");
  flags.Number("max-waiting-requests", &options.max_waiting_requests, 0, 16384,
               "requests that may wait; those beyond them are refused; 0 = nobody waits");
  flags.Number(
      "max-unchecked-mib", &options.max_unchecked_mib, 64, 1 << 20,
      "MiB of memory for requests that came and are not checked yet; those beyond it are "
      "refused, as are those of a connection that has a quarter of it, or of an address that "
      "has three times what is left for others");
  flags.Duration("admission-patience", &options.admission_patience, millisecond, absl::Hours(24),
                 "a request without a deadline waits this long to be admitted");
  flags.Number("default-max-tokens", &options.default_max_tokens, 0, UINT32_MAX,
               "output tokens of a request that sets no max_tokens; 0 = all that the context and "
               "the target's room leave");
  flags.Duration(
      "slot-patience", &options.loop.slot_patience, millisecond, absl::Hours(24),
      "a request without a deadline waits this long for a free slot and room at a target");
  flags.Duration("target-patience", &options.loop.target_patience, millisecond, absl::Hours(24),
                 "a request ends when the target has been of no use for this long");
  flags.Group("Clients that read slowly");
  flags.Duration("reader-patience", &options.loop.abort_after, millisecond, absl::Hours(24),
                 "a call ends when its client is behind for this long, or does not read the rest "
                 "within this after the text's end");
  flags.Number("max-open-calls", &options.max_open_calls, 0, 1 << 20,
               "calls that are open at once, also those that only wait for their readers; those "
               "beyond them are refused; 0 = twice the requests that may run and wait");
  flags.Number("max-unread-bytes", &options.max_unread_bytes, 1 << 20, kMaxUnreadBytes,
               "memory of replies that clients have not read; beyond it the calls that hold the "
               "most end");
  flags.Group("Rounds");
  flags.Choice(
      "length-policy", &options.length_policy, {"auto", "heuristic"},
      "how many candidates a round has where the request leaves it open: auto, the number with the "
      "most tokens a time by measured rounds, none included; heuristic, by what was accepted "
      "alone");
  flags.Duration(
      "draft-wait", &options.loop.draft_wait, millisecond, absl::Minutes(1),
      "the longest that a round waits for its block; it adapts downwards to the target's "
      "pace");
  flags.Duration("draft-wait-floor", &options.loop.draft_wait_floor, millisecond, absl::Minutes(1),
                 "the adapted wait is never shorter than this");
  flags.Duration(
      "watchdog-min", &options.loop.watchdog_min, millisecond, absl::Hours(1),
      "minimum timeout of a Step, for a target that has answered before; ten times as long for "
      "the first one after a target's start");
}

}  // namespace tandem::orchestrator
