// gRPC's own messages in our log.
#pragma once

namespace tandem::rpc {

// From now on gRPC's errors are lines of our log, and so is why a TLS handshake failed (which it says to
// nobody but its log, as information): "handshake_failed reason=…". At most 20 of those in 10 s; how many
// there were besides is in the next one. Idempotent, thread-safe.
void LogFailedHandshakes();

}  // namespace tandem::rpc
