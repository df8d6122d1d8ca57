// One request's way to its targets. The loop drives it and hears back through VerifyEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/telemetry/span_context.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/request/request.h"
#include "orchestrator/verify/target_info.h"

namespace tandem::orchestrator {

// Sent with keep = 0: all that the target must know of a sequence.
struct SequenceSetup {
  sampling::SamplingParameters sampling;
  acceptance::Rule rule = acceptance::Rule::kGreedy;
  std::optional<double> leniency;  // rule lenient only
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint32_t prompt_tokens = 0;
  uint32_t max_length = 0;
  uint32_t priority = 0;
  std::optional<sampling::LogprobOptions> logprobs;  // absent: none are wanted
};

struct VerifyStep {
  uint64_t round = 0;
  std::optional<SequenceSetup> setup;  // with keep = 0, and only then
  PrefixDelta prefix;
  bool more = false;             // the prefix goes on in the next Step; no candidates then
  CandidateBlock block;          // empty: plain decoding
  bool prompt_logprobs = false;  // those of prefix.tokens are wanted
  absl::Duration remaining = absl::InfiniteDuration();
  std::optional<telemetry::SpanContext> trace;  // absent: not sampled
};

// The answer to a Step. Entries and log probabilities are not validated yet.
struct VerifyReply {
  enum class Status : uint8_t {
    kOk,
    kNeedPrefix,  // `held`
    kStale,
    kInvalid,  // our own mistake; `message` names the field
    kNoSlot,   // `retry_after`
    kExpired,
    kDraining,
    kClosed,
    kInternal,
  };
  uint64_t round = 0;
  Status status = Status::kOk;
  std::string message;
  uint32_t held = 0;
  absl::Duration retry_after;
  std::vector<acceptance::Entry> entries;
  std::vector<sampling::NodeLogprobs> logprobs;  // one an entry, when they were asked for
  std::vector<sampling::NodeLogprobs>
      prompt_logprobs;  // one a token of the Step's prefix, but for position 0
  uint32_t one_hot_candidates = 0;
  absl::Duration queued;    // waiting for the target's device
  absl::Duration computed;  // in the passes that it took part in
  uint64_t pass_id = 0;     // of the last of these passes
  uint32_t pass_rows = 0;   // of the last of these passes, all sequences together
  uint32_t pass_sequences = 0;
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

// Why a session leaves its target.
enum class LeaveCause : uint8_t {
  kLost,      // the stream is gone
  kFault,     // it failed this session: another one is preferred from now on
  kDraining,  // it takes no new sequences, from nobody, for as long as its stream lives
  kNoSlot,    // it had none free
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
  virtual void Submit(uint64_t incarnation, VerifyStep step) = 0;
  // The stream of this incarnation is silent: ends it for all its sessions. OnVerifyLost follows.
  virtual void GiveUp(uint64_t incarnation, const std::string& reason) = 0;
  // When the session's stream last brought any verdict, of whichever request (the loop's clock).
  virtual absl::Duration last_heard() const = 0;
};

// May be called from any thread.
class VerifyEvents {
 public:
  virtual ~VerifyEvents() = default;
  // To a session that waits: what it waits for may be there. Seek tells.
  virtual void OnVerifyReady() = 0;
  // The stream that the session is at, or was, is gone. Verdicts that were read before come before this.
  virtual void OnVerifyLost(uint64_t incarnation, std::string reason) = 0;
  virtual void OnVerdict(uint64_t incarnation, VerifyReply reply) = 0;
};

}  // namespace tandem::orchestrator
