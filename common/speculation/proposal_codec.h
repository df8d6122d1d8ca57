// Proposal to and from the wire (sampling.proto).
//
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "common/speculation/proposal.h"
#include "tandem/v1/sampling.pb.h"

namespace tandem::speculation {

static_assert(static_cast<int>(Proposal::kDefault) == v1::PROPOSAL_UNSPECIFIED &&
              static_cast<int>(Proposal::kSampled) == v1::PROPOSAL_SAMPLED &&
              static_cast<int>(Proposal::kGreedy) == v1::PROPOSAL_GREEDY);

inline v1::Proposal ToWire(Proposal proposal) { return static_cast<v1::Proposal>(proposal); }

// Nullopt: an unknown value.
inline std::optional<Proposal> FromWire(v1::Proposal proposal) {
  if (!v1::Proposal_IsValid(proposal)) return std::nullopt;
  return static_cast<Proposal>(proposal);
}

}  // namespace tandem::speculation
