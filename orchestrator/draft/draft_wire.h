// Converts openings, advances and blocks between our plain values and draft.proto. Pure functions.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "orchestrator/draft/draft_session.h"
#include "tandem/internal/v1/draft.pb.h"

namespace tandem::orchestrator {

internal::v1::Open ToWire(base::SequenceId sequence, const DraftOpen& open);
internal::v1::Advance ToWire(base::SequenceId sequence, const DraftAdvance& advance);
internal::v1::Submitted SubmittedToWire(base::SequenceId sequence, base::BlockId block_id,
                                        uint32_t nodes);
DraftReplyBlock FromWire(const internal::v1::Block& block);
// Whether it was made in advance, and answers no Advance.
bool IsPrepared(const internal::v1::Block& block);
PreparedBlock PreparedFromWire(const internal::v1::Block& block);

}  // namespace tandem::orchestrator
