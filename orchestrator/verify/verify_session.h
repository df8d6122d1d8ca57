// One request's way to the target. The loop drives it and hears back through VerifyEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/generate/request.h"

namespace tandem::orchestrator {

// Sent with keep = 0: all that the target must know of a sequence.
struct SequenceSetup {
  sampling::SamplingParameters sampling;
  acceptance::Rule rule = acceptance::Rule::kGreedy;
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint32_t prompt_tokens = 0;
  uint32_t most_tokens = 0;
  uint32_t priority = 0;
};

struct VerifyStep {
  uint64_t round = 0;
  std::optional<SequenceSetup> setup;  // with keep = 0, and only then
  PrefixDelta prefix;
  bool more = false;     // the prefix goes on in the next Step; no candidates then
  CandidateBlock block;  // empty: plain decoding
  absl::Duration remaining = absl::InfiniteDuration();
};

// The answer to a Step. Entries are not validated yet.
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
  uint32_t one_hot_candidates = 0;
  absl::Duration queued;    // waiting for the target's device
  absl::Duration computed;  // in the passes that it took part in
  uint32_t pass_rows = 0;   // of the last of these passes, all sequences together
  uint32_t pass_sequences = 0;
};

// What the connected target is.
struct TargetInfo {
  uint64_t incarnation = 0;  // of the stream
  std::string model_id;
  uint32_t vocabulary_size = 0;
  uint32_t most_candidates = 0;
};

// Not thread-safe: one request's strand. Never calls back from inside a call.
//
// A session lives over many streams. While there is no stream a Step goes nowhere: the loop sends
// it again when OnVerifyReady says so.
class VerifySession {
 public:
  virtual ~VerifySession() = default;  // closes

  // On the stream of this incarnation; another one has nothing to do with it.
  virtual void Submit(uint64_t incarnation, VerifyStep step) = 0;
  // Frees what the target holds. The next Step begins a new sequence, so no answer to an older one
  // can be taken for its own.
  virtual void Close() = 0;
  // The stream of this incarnation is silent: ends it for all its sessions. OnVerifyLost follows.
  virtual void GiveUp(uint64_t incarnation, const std::string& reason) = 0;
  // When the stream last brought any verdict, of whichever request (the loop's clock).
  virtual absl::Duration last_heard() const = 0;
};

class VerifyEvents {
 public:
  virtual ~VerifyEvents() = default;
  // A stream is there: at once when it already was at the session's beginning.
  virtual void OnVerifyReady(TargetInfo target) = 0;
  // It is not any more. Verdicts that were read before come before this.
  virtual void OnVerifyLost(uint64_t incarnation, std::string reason) = 0;
  virtual void OnVerdict(uint64_t incarnation, VerifyReply reply) = 0;
};

}  // namespace tandem::orchestrator
