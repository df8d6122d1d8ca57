// What a port's handshakes are made with: files that may be replaced while the process runs.
//
// The files are looked at with each new connection, and now and then without one, so that the log
// and the metrics tell what is in force. Right files are in force from then on. Wrong ones (a key
// of another certificate, an expired certificate, half a file) are logged once, and what was in
// force stays.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/concurrency/mutex.h"
#include "common/security/pem_files.h"
#include "common/security/tls_options.h"

namespace tandem::security {

// All in PEM.
struct ServerIdentity {
  std::string certificate;  // with those between it and its authority
  std::string key;
  std::string authorities;  // of clients; empty: no client is asked for a certificate
};

// Thread-safe.
class ServerFiles {
 public:
  // One a port and process. It is never destroyed: a server's connector may outlive both the server
  // and its credentials for a moment. `options` are enabled() and valid. Errors as ReadIdentity and
  // ReadAuthorities.
  static absl::StatusOr<ServerFiles*> Keep(const TlsServerOptions& options);

  // Whether Keep would take them now: for a process that opens its port later. Errors as Keep's.
  static absl::Status Check(const TlsServerOptions& options);

  // Looks at the files, and returns what is in force: the same object until they are replaced.
  std::shared_ptr<const ServerIdentity> Current() TANDEM_EXCLUDES(mutex_);

 private:
  explicit ServerFiles(TlsServerOptions options);
  absl::Status Load() TANDEM_EXCLUDES(mutex_);
  absl::Status LoadLocked() TANDEM_REQUIRES(mutex_);
  void LookLocked() TANDEM_REQUIRES(mutex_);

  const TlsServerOptions options_;
  concurrency::Mutex mutex_;
  FileStamps stamps_ TANDEM_GUARDED_BY(mutex_);
  std::shared_ptr<const ServerIdentity> current_ TANDEM_GUARDED_BY(mutex_);
  std::string subject_ TANDEM_GUARDED_BY(mutex_);  // for logs
  absl::Time not_after_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::security
