// The last message of a request that ended well.
//
// Thread safety: pure functions.
#pragma once

#include "absl/types/span.h"
#include "orchestrator/generate/request.h"
#include "orchestrator/generate/speculation_loop.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// `endings`: one a sample, in order, all of them OK.
v1::Last MakeLast(const GenerationRequest& request, absl::Span<const Ending> endings);

}  // namespace tandem::orchestrator
