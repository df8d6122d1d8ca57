// What to do about a TLS handshake that failed: gRPC 1.51 and OpenSSL only say what was wrong.
#pragma once

#include "absl/strings/string_view.h"

namespace tandem::security {

// For a message that has gRPC's reason in it, of either side; empty when it is none of these. Pure.
absl::string_view HandshakeHint(absl::string_view reason);

}  // namespace tandem::security
