// One request's way to its drafts, one at a time. The loop drives it and hears back through
// DraftEvents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/speculation/prefix_delta.h"
#include "common/speculation/sequence_settings.h"
#include "common/telemetry/span_context.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

using speculation::PrefixDelta;

// How the last verified block of this draft ended.
struct BlockOutcome {
  base::BlockId block_id{};
  uint32_t node = 0;  // last accepted; 0 = none
  uint32_t next_token = 0;
};

struct DraftOpen {
  base::DraftAttempt attempt{};  // rises with every Open of a request; events name it
  std::string drafter;
  Proposal proposal = Proposal::kDefault;
  // The temperature is the draft's own. The seed is derived; under rule coupled, and only there, it
  // is the request's own. Never with logprobs.
  speculation::SequenceSettings settings;
  speculation::PrefixDelta prefix;  // keep = 0
};

struct DraftAdvance {
  uint64_t round = 0;  // rises with every Advance of an attempt
  speculation::PrefixDelta prefix;
  std::optional<BlockOutcome> outcome;
  uint32_t max_draft_tokens = 0;  // at least 1
  absl::Duration wanted_within;
  std::optional<telemetry::SpanContext> trace;  // absent: not sampled
};

enum class DraftLoss : uint8_t {
  kLost,     // worth another try
  kRefused,  // it does not fit; no other try of it within this request
};

// When another Open makes sense, after a draft was given up.
enum class NextDraft : uint8_t {
  kNow,    // there is another draft that has not failed lately
  kLater,  // all have failed lately: after a back-off
  kNever,  // none fits this request
};

// Not thread-safe: one request's strand. Never calls back from inside a call.
class DraftSession {
 public:
  virtual ~DraftSession() = default;  // closes

  // Begins anew, on a stream of its own; what was open before is closed. Always answered: by
  // OnDraftOpened or OnDraftLost of that attempt. Which draft it goes to is the session's choice.
  virtual void Open(const DraftOpen& open) = 0;
  // After OnDraftOpened; one unanswered at a time. Answered by OnBlock, or OnDraftLost.
  virtual void Advance(const DraftAdvance& advance) = 0;
  virtual void Submitted(base::BlockId block_id, uint32_t nodes) = 0;
  virtual void Close() = 0;  // no events of the attempt after it
  // Close, because the attempt's draft was of no use. `at_least`: how long it wants to be left
  // alone.
  virtual NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) = 0;
};

// The answer to an Advance, not judged yet.
struct DraftReplyBlock {
  enum class Status : uint8_t {
    kOk,
    kNeedPrefix,  // `held`
    kStale,
    kExpired,  // too late for it to begin
    kNoSlot,   // `retry_after`; the sequence is not there
    kRefused,  // options that the draft does not take; `message` says which
    kGone,     // draining, closed, its own fault; `message`
  };
  uint64_t round = 0;
  Status status = Status::kOk;
  uint32_t held = 0;
  absl::Duration retry_after;
  std::string message;
  CandidateTree block;  // as it was sent, well formed or not
  // Of kOk. False: a block that builds on an assumption, or a part of a block.
  bool is_whole = true;
  absl::Duration at_draft;  // between the Advance's arrival there and this answer; zero: not told

  // Of kOk. False: the block is not served; `message` says what it is.
  bool is_whole_chain() const { return is_whole && block.is_chain(); }
};

// What a draft's Welcome said that the loop needs.
struct DraftLimits {
  uint32_t max_draft_tokens = 0;
  uint32_t context_length = 0;  // 0 = unlimited
};

class DraftEvents {
 public:
  virtual ~DraftEvents() = default;
  virtual void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) = 0;
  virtual void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) = 0;
  virtual void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) = 0;
};

}  // namespace tandem::orchestrator
