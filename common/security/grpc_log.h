// gRPC's own messages in our log.
#pragma once

namespace tandem::security {

// From now on gRPC's errors are lines of our log ("grpc message=…"), and so is why a TLS handshake failed,
// which it says to nobody but its log, as information ("handshake_failed reason=…", of a channel with
// `to`), with what to do about it (`hint`) and, if the process's own certificates have expired, which
// (`expired`). At most 20 lines in 10 s; the next one tells how many others there were. Idempotent, thread-safe.
void LogFailedHandshakes();

}  // namespace tandem::security
