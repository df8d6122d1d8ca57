// Blocks as they go on the wire. Pure functions.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "common/messages/refusal.h"
#include "common/speculation/candidate_tree.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::draft_service {

internal::v1::Block RefusedBlock(base::SequenceId sequence, uint64_t round,
                                 messages::Refusal refusal);

// Status OK. CHECKs that q is empty or one a token, and each token below `vocabulary_size`.
internal::v1::Block DraftedReply(base::SequenceId sequence, uint64_t round,
                                 const speculation::CandidateTree& drafted,
                                 uint32_t vocabulary_size);

}  // namespace tandem::draft_service
