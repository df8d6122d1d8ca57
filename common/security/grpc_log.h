// gRPC's own messages in our log.
#pragma once

namespace tandem::security {

// From now on gRPC's errors are lines of our log ("grpc message=…"). So are the reasons of failed
// TLS handshakes, which gRPC tells to nobody but its log, as information: "handshake_failed
// reason=…". The line has `to` if the failure is a channel's, says what to do about it (`hint`),
// and names own certificates that have expired (`expired`). At most 20 lines in 10 s; the next one
// tells how many others there were. With GRPC_VERBOSITY in the environment all that gRPC logs are
// lines, and none is left out. Idempotent, thread-safe.
void TakeOverGrpcLog();

}  // namespace tandem::security
