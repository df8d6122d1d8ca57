// Reports when a process's certificates expire: in its log, with a warning in time, and on
// /metrics.
//
//   tandem:tls_certificate_expiry_timestamp_seconds{file="/certs/target.pem"}  seconds since 1970
//
// It reports the certificates in force, not those on disk. Refused new files change nothing.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::security {

// Thread-safe.
class CertificateExpiry {
 public:
  // The instance of this process. It checks periodically, and is never destroyed.
  static CertificateExpiry& Get();

  // For tests: only the caller checks.
  CertificateExpiry() = default;

  // What is in force from `file` expires at `until`: for a certificate and its intermediate
  // certificates the first expiry, for authorities the last one.
  void Set(const std::string& file, absl::Time until) TANDEM_EXCLUDES(mutex_);

  // Logs, once per day for each file, `certificate_expires` (a warning) when less than 7 days are
  // left, and `certificate_expired` (an error) after the expiry.
  void Look(absl::Time now) TANDEM_EXCLUDES(mutex_);

  // "FILE expired at TIME", separated by commas; empty when all are valid.
  std::string Expired(absl::Time now) const TANDEM_EXCLUDES(mutex_);

  // In Prometheus' text format; empty without a certificate.
  std::string MetricsText() const TANDEM_EXCLUDES(mutex_);

 private:
  struct Known {
    absl::Time until;
    absl::Time said = absl::InfinitePast();
    bool said_expired = false;
  };

  mutable concurrency::Mutex mutex_;
  std::map<std::string, Known> known_ TANDEM_GUARDED_BY(mutex_);  // by file
};

}  // namespace tandem::security
