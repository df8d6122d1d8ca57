// A client's certificate files, checked, where gRPC's watcher looks for them.
//
// gRPC 1.51's FileWatcherCertificateProvider reads a key and a certificate one after the other. It
// does not ask whether they belong together, and drops what worked before it tries the new pair.
// With half of a replacement a channel would connect to nobody. So the watcher is shown copies:
// memory files that hold only what pem_files.h found right, certificate and key in one, replaced as
// a whole by dup3. Nothing is written to a disk. The watcher takes what it read only if the time of
// change, in seconds, is the same before and after. Each copy has another time of change, so two
// halves never come from two copies.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/security/tls_options.h"

namespace tandem::security {

// Paths in /proc/self/fd that are good until the process ends.
struct CheckedCopies {
  std::string ca;
  std::string identity;  // certificate and key; empty: the client has none
};

// The copies of these files. The same files give the same copies. Every half second the files are
// looked at again (periodic_look.h). Errors as ReadAuthorities and ReadIdentity if the files are
// wrong now (ReadPatiently); UNAVAILABLE if the process may not read /proc/self/fd. Later faults
// are logged once each, and the copies stay as they were. Thread-safe.
absl::StatusOr<CheckedCopies> CopiesOf(const TlsClientOptions& options);

}  // namespace tandem::security
