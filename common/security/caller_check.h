// Whether a call may be made: its bearer token, at the entry of a service.
#pragma once

#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "common/security/bearer_tokens.h"

namespace tandem::security {

// OK without `tokens` (everybody may call). UNAUTHENTICATED: as BearerTokens::Check; then a line is
// logged or counted (refusal_log.h). It shows nothing of what was sent. Thread-safe.
absl::Status CheckCaller(const grpc::ServerContextBase& context, absl::string_view method,
                         BearerTokens* tokens);

}  // namespace tandem::security
