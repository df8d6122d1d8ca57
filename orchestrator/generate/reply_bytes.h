// How much memory a reply takes while it waits for its client.
//
// Thread safety: a pure function.
#pragma once

#include <cstddef>

#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// Bytes of the message's objects, which are a few times as many as those on the wire. An estimate
// from above: every message counts for at least 256. Of the replies that come often (text, log
// probabilities) it only looks at sizes, because it is asked for each of them.
size_t ReplyBytes(const v1::GenerateReply& reply);

}  // namespace tandem::orchestrator
