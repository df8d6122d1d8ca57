#include "orchestrator/request/request.h"

#include "common/acceptance/tree.h"

namespace tandem::orchestrator {

// Greedy says that the draft's own temperature is 0, too. A draft that samples all the same has to
// send its q; the target needs none to compare with its most likely token.
acceptance::Rule GenerationRequest::draft_rule() const {
  const bool samples = rule == acceptance::Rule::kGreedy && draft_temperature.value_or(0) > 0;
  return samples ? acceptance::Rule::kSpeculative : rule;
}

bool GenerationRequest::shapes_blocks() const { return acceptance::HasTrees(draft_rule()); }

const char* Name(PlainCause cause) {
  switch (cause) {
    case PlainCause::kFirstRound:
      return "first-round";
    case PlainCause::kOff:
      return "off";
    case PlainCause::kPolicyZero:
      return "policy-zero";
    case PlainCause::kDraftLate:
      return "draft-late";
    case PlainCause::kDraftLost:
      return "draft-lost";
    case PlainCause::kDraftRefused:
      return "draft-refused";
    case PlainCause::kDraftInvalid:
      return "draft-invalid";
    case PlainCause::kDraftStale:
      return "draft-stale";
    case PlainCause::kDraftEmpty:
      return "draft-empty";
  }
  return "unknown";
}

const char* Name(PreparedUse use) {
  switch (use) {
    case PreparedUse::kNone:
      return "";
    case PreparedUse::kHit:
      return "hit";
    case PreparedUse::kChained:
      return "chained";
    case PreparedUse::kMiss:
      return "miss";
    case PreparedUse::kLate:
      return "late";
  }
  return "unknown";
}

const char* Name(ZeroCause cause) {
  switch (cause) {
    case ZeroCause::kLoad:
      return "load";
    case ZeroCause::kAcceptance:
      return "acceptance";
    case ZeroCause::kSlowDraft:
      return "draft-too-slow";
  }
  return "unknown";
}

const char* Name(DrafterReason reason) {
  switch (reason) {
    case DrafterReason::kFirst:
      return "first";
    case DrafterReason::kTrial:
      return "trial";
    case DrafterReason::kBest:
      return "best";
    case DrafterReason::kOther:
      return "other-failed";
  }
  return "unknown";
}

DrafterCounts& DrafterCounts::operator+=(const DrafterCounts& more) {
  rounds += more.rounds;
  drafted_rounds += more.drafted_rounds;
  draft_tokens += more.draft_tokens;
  accepted_tokens += more.accepted_tokens;
  tokens += more.tokens;
  for (int i = 0; i < kDrafterReasons; ++i) reasons[i] += more.reasons[i];
  return *this;
}

RoundStages& RoundStages::operator+=(const RoundStages& more) {
  draft += more.draft;
  network += more.network;
  slot += more.slot;
  queue += more.queue;
  device += more.device;
  own += more.own;
  return *this;
}

}  // namespace tandem::orchestrator
