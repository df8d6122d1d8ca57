#include "common/speculation/proposal_codec.h"

namespace tandem::speculation {

v1::Proposal ToWire(Proposal proposal) {
  switch (proposal) {
    case Proposal::kDefault:
      return v1::PROPOSAL_UNSPECIFIED;
    case Proposal::kSampled:
      return v1::PROPOSAL_SAMPLED;
    case Proposal::kGreedy:
      return v1::PROPOSAL_GREEDY;
  }
  return v1::PROPOSAL_UNSPECIFIED;
}

std::optional<Proposal> FromWire(v1::Proposal proposal) {
  switch (proposal) {
    case v1::PROPOSAL_UNSPECIFIED:
      return Proposal::kDefault;
    case v1::PROPOSAL_SAMPLED:
      return Proposal::kSampled;
    case v1::PROPOSAL_GREEDY:
      return Proposal::kGreedy;
    default:
      return std::nullopt;
  }
}

}  // namespace tandem::speculation
