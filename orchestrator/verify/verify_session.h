// One request's session with its targets. The loop calls it and hears back through VerifyEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// A block that the target goes on with by itself if the Step before ends so (target.proto,
// PreparedBlock).
struct ChainedBlock {
  uint32_t node = 0;
  uint32_t next_token = 0;
  CandidateTree block;  // a chain, one-hot, not empty
};

struct VerifyStep {
  uint64_t round = 0;
  // A chained Step: the round of the Step before, and its blocks. It has no prefix and no block of
  // its own.
  uint64_t after = 0;
  std::vector<ChainedBlock> chained;
  // The sequence's settings, for the target. Present exactly if keep = 0.
  std::optional<speculation::SequenceSettings> setup;
  speculation::PrefixDelta prefix;
  bool more = false;             // the prefix goes on in the next Step; no draft tokens then
  CandidateTree block;           // empty: plain decoding
  bool prompt_logprobs = false;  // those of prefix.tokens are wanted
  absl::Duration remaining = absl::InfiniteDuration();
  // Of the wait for its verdict; of a chained Step: for the verdict before. Absent: not sampled.
  std::optional<telemetry::SpanContext> trace;
};

// Where a session may send its Steps.
struct SeekResult {
  enum class Kind : uint8_t {
    kTarget,    // `target`
    kNoTarget,  // no fitting target is connected; `reason`
    kNoSlot,    // no fitting target has a free slot; the session waits in line
    kUnfit,     // all targets have another model; `reason`
  };
  Kind kind = Kind::kNoTarget;
  TargetInfo target;
  std::string reason;
};

// Not thread-safe: used on the request's strand. A call never calls `events` before it returns.
//
// A session is at one target at a time. All its targets have the same model: the one that it was
// made for, else that of its first target.
class VerifySession {
 public:
  virtual ~VerifySession() = default;  // closes

  // Returns the session's target. If it has none, a good one is chosen. Good means, in this order:
  // it has not failed this session, it has the same numerics as before, a free slot, and little
  // load. If there is none, the session waits, and OnVerifyReady says when to seek again.
  virtual SeekResult Seek() = 0;
  // Frees what the target holds and leaves it. The next Seek chooses a target. `retry_after` is
  // what the target asked for, with kNoSlot.
  virtual void Leave(LeaveCause cause, absl::Duration retry_after) = 0;
  // Leaves for good or for a while: nothing is held and nothing waits.
  virtual void Close() = 0;

  // The session pauses, and holds its slot until somebody wants it. True: somebody waits for one
  // now. Else OnSlotWanted says so, once, when somebody does; also after the pause.
  virtual bool OfferSlot() = 0;

  // Sends a Step to the session's target, if this is the target's stream; otherwise it does
  // nothing. The first Step after Seek begins a new sequence, so no answer to an older sequence is
  // taken for its own. It is the same sequence if only the stream was lost (kLost) and the target
  // still holds it. Then the target computes nothing again.
  virtual void Submit(base::Incarnation incarnation, VerifyStep step) = 0;
  // Ends the silent stream of this incarnation for all its sessions. OnVerifyLost follows.
  virtual void GiveUp(base::Incarnation incarnation, const std::string& reason) = 0;
  // When the session's stream last brought a verdict of any request, on the loop's clock.
  virtual concurrency::Instant last_heard() const = 0;
};

// Called on any thread.
class VerifyEvents {
 public:
  virtual ~VerifyEvents() = default;
  // The session may now get what it waits for. Seek tells.
  virtual void OnVerifyReady() = 0;
  // After OfferSlot: somebody waits for a slot.
  virtual void OnSlotWanted() = 0;
  // The session's stream, the present or a former one, is gone. Verdicts that were read before come
  // first.
  virtual void OnVerifyLost(base::Incarnation incarnation, std::string reason) = 0;
  virtual void OnVerdict(base::Incarnation incarnation, VerifyReply reply) = 0;
};

}  // namespace tandem::orchestrator
