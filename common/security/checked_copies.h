// A client's certificate files, checked, where gRPC's watcher looks for them.
//
// gRPC 1.51's FileWatcherCertificateProvider reads a key and a certificate one after the other, does not ask
// whether they belong together, and drops what worked before it tries the new pair: with half of a replacement
// a channel connects to nobody. So it is shown copies: memory files (nothing is written to a disk) that hold
// only what pem_files.h found right, certificate and key in one, replaced as a whole by dup3. The watcher takes
// what it read only if the time of change, in seconds, is the same before and after; each copy has another
// one, so two halves never come from two copies.
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

// The copies of these files: the same for the same files, looked at now and then every half second
// (periodic_look.h). Errors as ReadAuthorities and ReadIdentity if the files are wrong now (ReadPatiently); UNAVAILABLE where
// the process may not read /proc/self/fd. Later faults are logged once each, and the copies stay as they were.
// Thread-safe.
absl::StatusOr<CheckedCopies> CopiesOf(const TlsClientOptions& options);

}  // namespace tandem::security
