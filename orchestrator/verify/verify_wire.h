// Converts Steps and verdicts between our plain values and target.proto. Pure functions.
#pragma once

#include <cstdint>

#include "common/base/ids.h"
#include "orchestrator/request/verdict.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::orchestrator {

internal::v1::Step ToWire(base::SequenceId sequence, VerifyStep step);
// Tokens that a sequence may have at a target with these limits: the context length if it does not
// say more (an older one); 0 if it says nothing.
uint32_t MaxSequenceLength(const v1::Limits& limits);
// A status that this side does not know becomes INTERNAL.
VerifyReply FromWire(const internal::v1::Verdict& verdict);

}  // namespace tandem::orchestrator
