// Says what to do about a TLS handshake that failed. gRPC 1.51 and OpenSSL only say what was wrong.
#pragma once

#include "absl/strings/string_view.h"

namespace tandem::security {

// `reason`: a message with gRPC's reason in it, from either side. Empty when the reason is not
// known here. Pure.
absl::string_view HandshakeHint(absl::string_view reason);

}  // namespace tandem::security
