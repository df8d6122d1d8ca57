// Converts openings, advances and blocks between our plain values and draft.proto. Pure functions.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "orchestrator/draft/draft_session.h"
#include "tandem/v1/draft.pb.h"

namespace tandem::orchestrator {

v1::Open ToWire(base::SequenceId sequence, const DraftOpen& open);
v1::Advance ToWire(base::SequenceId sequence, const DraftAdvance& advance);
v1::Submitted SubmittedToWire(base::SequenceId sequence, base::BlockId block_id, uint32_t nodes);
DraftReplyBlock FromWire(const v1::Block& block);

}  // namespace tandem::orchestrator
