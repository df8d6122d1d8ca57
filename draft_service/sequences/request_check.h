// Open and Advance as the drafting thread takes them: everything that can be checked without the
// sequence's state has been.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/messages/refusal.h"
#include "common/speculation/proposal.h"
#include "common/speculation/sequence_settings.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

struct RequestLimits {
  uint32_t max_draft_tokens = 16;
  uint32_t vocabulary_size = 0;  // ids below it are tokens
  uint32_t max_nodes = 0;        // in a tree; 0: no drafter makes trees
};

struct CheckedOpen {
  speculation::SequenceSettings settings;
  speculation::Proposal proposal = speculation::Proposal::kDefault;
  std::string drafter;          // empty: the default
  internal::v1::Prefix prefix;  // may commit nothing
};

struct CheckedAdvance {
  base::SequenceId sequence{};
  uint64_t round = 0;
  internal::v1::Prefix prefix;  // at least one token committed
  uint32_t max_draft_tokens = 0;
  uint32_t max_nodes = 0;     // what the sequence's options allow is not checked
  double min_confidence = 0;  // what its rule allows is not checked
  uint32_t max_outcomes = 0;  // at most kMaxOutcomes; the draft may prepare fewer blocks, or none
  absl::Duration wanted_within = absl::InfiniteDuration();  // from its arrival
};

// The refusal is INVALID and names the field.
std::variant<CheckedOpen, messages::Refusal> CheckOpen(internal::v1::Open open,
                                                       const RequestLimits& limits);
std::variant<CheckedAdvance, messages::Refusal> CheckAdvance(internal::v1::Advance advance,
                                                             const RequestLimits& limits);

}  // namespace tandem::draft_service
