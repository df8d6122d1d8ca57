#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

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
