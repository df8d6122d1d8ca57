// Decides the number of draft tokens of a round. A policy belongs to one request. It sees counts
// and times. It never sees a token or a probability, so the length of a block cannot depend on what
// was drawn for it, and the text keeps the target's distribution under every exact rule.
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "orchestrator/request/decoding_load.h"
#include "orchestrator/request/length_choice.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

inline constexpr uint32_t kMaxDraftTokens = 16;  // per round, under every policy

// What a policy may ask when it chooses.
struct LengthInputs {
  // The time of a target pass of so many rows by the target's own cost curve; zero: not known.
  absl::FunctionRef<absl::Duration(uint32_t rows)> pass_time;
  // What the sequence's target says of all that is decoded there.
  DecodingLoad decoding = {};
  // Draft tokens on a path that the target takes at most.
  uint32_t max_draft_tokens = kMaxDraftTokens;
  // Nodes of a tree that target and draft take at most, where the policy may choose trees; 0:
  // chains alone.
  uint32_t max_nodes = 0;
  bool ends_by_confidence = false;  // the draft can end a chain where it is in doubt
  // Outcomes for which the draft may prepare blocks; 0: it does not.
  uint32_t max_outcomes = 0;
  bool target_chains = false;  // the target goes on with such blocks by itself
  // The orchestrator has nearly all of the sequences that its target decodes.
  bool alone_at_target = false;
  bool draft_is_known = true;  // else max_nodes and ends_by_confidence say nothing of it yet
};

class LengthPolicy {
 public:
  virtual ~LengthPolicy() = default;

  // The draft is to read the prompt when the text begins, because the next rounds want it.
  virtual bool WantsDraft() const = 0;

  // Returns the choice for the round that begins now. Its tokens are 0 to kMaxDraftTokens. The
  // round may ask for fewer, where the text or a peer has no room for as many.
  virtual LengthChoice Next(const LengthInputs& inputs) = 0;

  // A round was decided, with a draft or without. `round.choice` is what Next returned for it;
  // absent in a round that did not ask.
  virtual void Observe(const RoundRecord& round) = 0;
};

}  // namespace tandem::orchestrator
