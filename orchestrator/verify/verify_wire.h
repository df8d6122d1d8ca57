// Converts Steps and verdicts between our plain values and target.proto. Pure functions.
#pragma once

#include "common/base/ids.h"
#include "orchestrator/request/verdict.h"
#include "orchestrator/verify/verify_session.h"
#include "tandem/v1/target.pb.h"

namespace tandem::orchestrator {

v1::Step ToWire(base::SequenceId sequence, VerifyStep step);
// A status that this side does not know becomes INTERNAL.
VerifyReply FromWire(const v1::Verdict& verdict);

}  // namespace tandem::orchestrator
