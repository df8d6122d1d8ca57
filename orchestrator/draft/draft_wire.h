// Converts openings, advances and blocks between our plain values and draft.proto. Pure functions.
#pragma once

#include <cstdint>

#include "orchestrator/draft/draft_session.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::orchestrator {

v1::Open ToWire(uint64_t sequence, const DraftOpen& open);
v1::Advance ToWire(uint64_t sequence, const DraftAdvance& advance);
v1::Submitted SubmittedToWire(uint64_t sequence, uint64_t block_id, uint32_t nodes);
DraftReplyBlock FromWire(const v1::Block& block);

}  // namespace tandem::orchestrator
