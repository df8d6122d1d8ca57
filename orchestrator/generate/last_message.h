// The last message of a request that ended well, and the records of its rounds.
//
// Thread safety: pure functions.
#pragma once

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/instant.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/round_record.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// `endings` has one element for each sample, in order. All are OK.
v1::Last MakeLast(const GenerationRequest& request, absl::Span<const Ending> endings);

v1::Stages ToWire(const RoundStages& stages);
// `arrived` is the request's arrival, on the clock of the record's times.
v1::RoundRecord ToWire(const RoundRecord& round, uint32_t sample, concurrency::Instant arrived);

}  // namespace tandem::orchestrator
