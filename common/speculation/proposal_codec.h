// Proposal to and from the wire (sampling.proto).
//
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "common/speculation/proposal.h"
#include "tandem/v1/sampling.pb.h"

namespace tandem::speculation {

v1::Proposal ToWire(Proposal proposal);
// Absent: a value that is not known.
std::optional<Proposal> FromWire(v1::Proposal proposal);

}  // namespace tandem::speculation
