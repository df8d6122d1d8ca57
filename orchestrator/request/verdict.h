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
  std::vector<sampling::NodeLogprobs> logprobs;  // one for each entry, if they were asked for
  std::vector<sampling::NodeLogprobs>
      prompt_logprobs;  // one for each token of the Step's prefix, except position 0
  uint32_t one_hot_candidates = 0;
  uint32_t cached_tokens = 0;  // of the Step's prefix; not checked yet
  absl::Duration queued;       // wait for the target's device
  absl::Duration computed;     // time of the passes that it took part in
  absl::Duration prefill;      // of both, for prompts and replays of any sequence
  uint64_t pass_id = 0;        // of the last of these passes
  uint32_t pass_rows = 0;      // rows of that pass, of all sequences
  uint32_t pass_sequences = 0;
  std::string field;  // kInvalid: the Step's field, as a path; may be empty
};

// Why a session leaves its target.
enum class LeaveCause : uint8_t {
  kLost,      // the stream is gone
  kFault,     // it failed this session, which prefers others from now on
  kDraining,  // it takes no new sequences while its stream lives
  kNoSlot,    // it had no free slot
};

}  // namespace tandem::orchestrator
