// A target's verdict (target.proto, Verdict). A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"

namespace tandem::orchestrator {

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

// Why a session leaves its target.
enum class LeaveCause : uint8_t {
  kLost,      // the stream is gone
  kFault,     // it failed this session: another one is preferred from now on
  kDraining,  // it takes no new sequences, from nobody, for as long as its stream lives
  kNoSlot,    // it had none free
};

}  // namespace tandem::orchestrator
