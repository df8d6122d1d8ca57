// The certificate files of a port, which may be replaced while the process runs.
//
// The files are checked with each new connection, and periodically without one, so that the log
// and the metrics show what is in force. Valid files take effect immediately. Invalid ones (the key
// of another certificate, an expired certificate, half a file) are logged once, and the previous
// ones stay in force.
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
  std::string certificate;  // with its intermediate certificates
  std::string key;
  std::string authorities;  // of clients; empty: client certificates are not requested
};

// Thread-safe.
class ServerFiles {
 public:
  // One per port and process. It is never destroyed: a server's connector may outlive both the
  // server and its credentials for a moment. `options` are enabled() and valid. Errors as
  // ReadIdentity and ReadAuthorities.
  static absl::StatusOr<ServerFiles*> Keep(const TlsServerOptions& options);

  // Whether Keep would succeed now, for a process that opens its port later. Errors as Keep's.
  static absl::Status Check(const TlsServerOptions& options);

  // Checks the files and returns what is in force: the same object until they are replaced.
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
