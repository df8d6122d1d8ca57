// One request's way to its targets. The loop drives it and hears back through VerifyEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/speculation/prefix_delta.h"
#include "common/speculation/sequence_settings.h"
#include "common/telemetry/span_context.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/verdict.h"
#include "orchestrator/verify/target_info.h"

namespace tandem::orchestrator {

struct VerifyStep {
  uint64_t round = 0;
  // With keep = 0, and only then: all that the target must know of the sequence.
  std::optional<speculation::SequenceSettings> setup;
  speculation::PrefixDelta prefix;
  bool more = false;             // the prefix goes on in the next Step; no candidates then
  CandidateTree block;           // empty: plain decoding
  bool prompt_logprobs = false;  // those of prefix.tokens are wanted
  absl::Duration remaining = absl::InfiniteDuration();
  std::optional<telemetry::SpanContext> trace;  // absent: not sampled
};

// Where a session may send its Steps.
struct Seat {
  enum class Kind : uint8_t {
    kTarget,    // `target`
    kNoTarget,  // none that fits is connected; `reason`
    kNoSlot,    // none that fits has a free slot: the session waits in line
    kUnfit,     // every target is known to be of another model; `reason`
  };
  Kind kind = Kind::kNoTarget;
  TargetInfo target;
  std::string reason;
};

// Not thread-safe: one request's strand. Never calls back from inside a call.
//
// A session is at one target at a time, and only at those of one model: the one that it was made for, else
// that of its first target.
class VerifySession {
 public:
  virtual ~VerifySession() = default;  // closes

  // The target that the session is at. When it is at none: a good one, if there is any (no fault seen
  // there, the same numerics as before, a slot free, little load: in this order); else the session waits,
  // and OnVerifyReady says when to seek again.
  virtual Seat Seek() = 0;
  // Frees what the target holds, and leaves it: Seek finds one anew. `retry_after`: with kNoSlot, what the
  // target asked for.
  virtual void Leave(LeaveCause cause, absl::Duration retry_after) = 0;
  // The same for good, or for a while: nothing is held, nothing waits.
  virtual void Close() = 0;

  // To the target that the session is at, if this is its stream; else it goes nowhere. The first Step
  // after Seek begins a new sequence, so no answer to an older one can be taken for its own.
  virtual void Submit(base::Incarnation incarnation, VerifyStep step) = 0;
  // The stream of this incarnation is silent: ends it for all its sessions. OnVerifyLost follows.
  virtual void GiveUp(base::Incarnation incarnation, const std::string& reason) = 0;
  // When the session's stream last brought any verdict, of whichever request (the loop's clock).
  virtual concurrency::Instant last_heard() const = 0;
};

// May be called from any thread.
class VerifyEvents {
 public:
  virtual ~VerifyEvents() = default;
  // To a session that waits: what it waits for may be there. Seek tells.
  virtual void OnVerifyReady() = 0;
  // The stream that the session is at, or was, is gone. Verdicts that were read before come before this.
  virtual void OnVerifyLost(base::Incarnation incarnation, std::string reason) = 0;
  virtual void OnVerdict(base::Incarnation incarnation, VerifyReply reply) = 0;
};

}  // namespace tandem::orchestrator
