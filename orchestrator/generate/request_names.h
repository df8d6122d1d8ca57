// What a client calls its request and its user: checked, because they go to logs and traces.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "orchestrator/request/request.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// 1 to 128 visible characters of ASCII.
bool IsRequestId(absl::string_view id);

// Sets id (it stays empty if the client gave none) and user. `header`: x-request-id as it came;
// empty: there was none. INVALID_ARGUMENT names the field or the header; so two ids that differ.
absl::Status FillNames(const v1::GenerateRequest& request, absl::string_view header,
                       GenerationRequest& to);

}  // namespace tandem::orchestrator
