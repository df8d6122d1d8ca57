// A Step as the device's thread takes it: everything that can be checked without the sequence's
// state has been.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/base/ids.h"
#include "common/messages/refusal.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/sequence_options.h"
#include "common/telemetry/span_context.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::target_service {

struct StepLimits {
  uint32_t max_draft_tokens = 16;
  uint32_t vocabulary_size = 0;  // ids below it are tokens
  uint32_t context_length = 0;
  std::vector<acceptance::Rule> rules;  // that are served
  bool logprobs = true;                 // whether they are served
  uint32_t max_length = UINT32_MAX;     // of a sequence, where that is less than the context length
  uint32_t max_nodes = 0;               // in a tree; 0: trees are not served
};

// A block of a chained Step (target.proto), for one outcome of the Step before.
struct PreparedBlock {
  uint32_t node = 0;
  uint32_t next_token = 0;           // in the vocabulary
  speculation::CandidateTree block;  // a chain, one-hot, not empty
};

struct CheckedStep {
  base::SequenceId sequence{};
  uint64_t round = 0;
  std::optional<speculation::SequenceSettings> options;
  // At least one token committed; ids below the vocabulary. Of a chained Step it is empty until it
  // is known.
  internal::v1::Prefix prefix;
  bool more = false;
  bool prompt_logprobs = false;  // of prefix.tokens, at most messages::kMaxPromptLogprobTokens then
  // A chain of any ids: those outside the vocabulary have p = 0. Or a tree of ids in the
  // vocabulary, without q; whether the sequence may have one is not checked. Where a q was no
  // distribution that its draft token can have been drawn from, it is empty now, so that the
  // draft token is one-hot.
  speculation::CandidateTree block;
  uint32_t one_hot_candidates = 0;                      // whose q was emptied
  absl::Duration remaining = absl::InfiniteDuration();  // from its arrival
  std::optional<telemetry::SpanContext> trace;          // sampled; absent: it is not
  // A chained Step: the round of the Step before, and the blocks, of which one becomes `block`.
  std::optional<uint64_t> after;
  std::vector<PreparedBlock> prepared;

  uint32_t committed() const { return prefix.keep() + static_cast<uint32_t>(prefix.tokens_size()); }
};

// A Step that was refused before it came to the device; its verdict goes out with the others.
struct RefusedStep {
  base::SequenceId sequence{};
  uint64_t round = 0;
  messages::Refusal refusal;
  std::optional<telemetry::SpanContext> trace;  // as CheckedStep's
};

// The refusal is INVALID and names the field.
std::variant<CheckedStep, messages::Refusal> CheckStep(internal::v1::Step step,
                                                       const StepLimits& limits);

}  // namespace tandem::target_service
