// One request's session with its drafts, one draft at a time. The loop calls it and hears back
// through DraftEvents.
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
#include "orchestrator/request/prepared_block.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

using speculation::PrefixDelta;

inline constexpr uint32_t kMaxOutcomes = 16;  // of a block, that blocks are prepared for

// How the last verified block of this draft was decided.
struct BlockOutcome {
  base::BlockId block_id{};
  uint32_t node = 0;  // last accepted node; 0 = none
  uint32_t next_token = 0;
};

struct DraftOpen {
  base::DraftAttempt attempt{};  // rises with every Open of a request; events name it
  std::string drafter;
  Proposal proposal = Proposal::kDefault;
  // The temperature is that of the draft. The seed is derived from the request's; under rule
  // coupled it is the request's own. logprobs is never set.
  speculation::SequenceSettings settings;
  bool needs_trees = false;         // a draft that makes chains alone does not serve it
  speculation::PrefixDelta prefix;  // keep = 0
};

struct DraftAdvance {
  uint64_t round = 0;  // rises with every Advance of an attempt
  speculation::PrefixDelta prefix;
  std::optional<BlockOutcome> outcome;
  uint32_t max_draft_tokens = 0;  // at least 1
  uint32_t max_nodes = 0;         // of a tree; 0: a chain
  double min_confidence = 0;      // draft.proto, Shape
  uint32_t max_outcomes = 0;      // to prepare blocks for, at most kMaxOutcomes
  absl::Duration wanted_within;
  std::optional<telemetry::SpanContext> trace;  // absent: not sampled
};

enum class DraftLoss : uint8_t {
  kLost,     // worth another try
  kRefused,  // it does not fit; no other try of it within this request
};

// When another Open can succeed, after a draft was given up.
enum class NextDraft : uint8_t {
  kNow,    // another draft has not failed lately
  kLater,  // all drafts have failed lately: wait for a back-off
  kNever,  // no draft fits this request
};

// Not thread-safe: used on the request's strand. A call never calls `events` before it returns.
class DraftSession {
 public:
  virtual ~DraftSession() = default;  // closes

  // Begins a new attempt, as a sequence of its own, and closes the one before. Each attempt is
  // answered by OnDraftOpened or OnDraftLost. The session chooses the draft.
  virtual void Open(const DraftOpen& open) = 0;
  // Call after OnDraftOpened, and not while an Advance is unanswered. OnBlock or OnDraftLost
  // answers it.
  virtual void Advance(const DraftAdvance& advance) = 0;
  // The block went to verification, cut to its first `nodes` tokens. Of one that was prepared: its
  // assumption has come true, so the draft knows the tokens up to it.
  virtual void Submitted(base::BlockId block_id, uint32_t nodes) = 0;
  virtual void Close() = 0;  // the attempt has no events after it
  // Closes the attempt because its draft was of no use. `at_least` is how long the draft asks to be
  // left alone.
  virtual NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) = 0;
};

// The answer to an Advance, before it is judged.
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
  // For kOk. False for a block that builds on an assumption, and for a part of a block.
  bool is_whole = true;
  absl::Duration at_draft;  // from the Advance's arrival there to this answer; zero: unknown
  absl::Duration queued;    // of at_draft: waiting for the drafting thread

  // For kOk. If it is false and no tree was asked for, the block is not served; `message` says what
  // it is.
  bool is_whole_chain() const { return is_whole && block.is_chain(); }
};

// What the loop needs of a draft: of its Welcome, and its address.
struct DraftLimits {
  uint32_t max_draft_tokens = 0;
  uint32_t context_length = 0;      // 0 = unlimited
  std::string draft = {};           // for observers
  uint32_t max_nodes = 0;           // of the trees that it drafts for this request; 0: chains alone
  bool ends_by_confidence = false;  // it takes DraftAdvance::min_confidence
  bool prepares = false;            // likewise DraftAdvance::max_outcomes, for this request
};

class DraftEvents {
 public:
  virtual ~DraftEvents() = default;
  virtual void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) = 0;
  virtual void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) = 0;
  // All that one message brings, as a rule all blocks of a base. Comes at any time after
  // OnDraftOpened, and answers nothing.
  virtual void OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) = 0;
  virtual void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) = 0;
};

}  // namespace tandem::orchestrator
