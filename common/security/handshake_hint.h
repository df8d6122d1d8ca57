// Says what to do about a connection that failed: a TLS handshake, or a port of another protocol.
// gRPC 1.51 and OpenSSL only say what was wrong.
#pragma once

#include "absl/strings/string_view.h"

namespace tandem::security {

// `reason`: a message with gRPC's reason in it, from either side. Empty when the reason is
// unknown. Pure.
absl::string_view HandshakeHint(absl::string_view reason);

}  // namespace tandem::security
