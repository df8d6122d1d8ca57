// Until when a process's certificates are good: in its log before it is too late, and on /metrics.
//
//   tandem:tls_certificate_expiry_timestamp_seconds{file="/certs/target.pem"}  seconds since 1970
//
// What counts is what is in force, not what lies on the disk: new files that were not taken change nothing.
#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"

namespace tandem::security {

// Thread-safe.
class CertificateExpiry {
 public:
  // The process's own: looked at by itself, and never destroyed.
  static CertificateExpiry& Get();

  // For tests: nobody looks but the caller.
  CertificateExpiry() = default;

  // What is in force out of `file` is good until `until`: a certificate with those between it and its
  // authority until the first of them expires, authorities until the last one does.
  void Set(const std::string& file, absl::Time until) TANDEM_EXCLUDES(mutex_);

  // Logs what is due, each once a day: `certificate_expires` (a warning) when less than 7 days are left, and
  // `certificate_expired` (an error), from the moment on.
  void Look(absl::Time now) TANDEM_EXCLUDES(mutex_);

  // "FILE expired at TIME", with commas between; empty when all are good.
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
